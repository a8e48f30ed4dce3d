// Package onemember runs the tests of a package over one cluster of one member, which they
// share. Each keeps to keys of its own.
package onemember

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
)

// Patience is far above what any test takes; one that hangs is ended by it.
const Patience = time.Minute

// Main is what TestMain does: it starts the cluster and hands it to use, runs the tests,
// and fails if they leave a goroutine behind.
func Main(m *testing.M, use func(*lab.Cluster)) {
	lab.Main()
	goleak.VerifyTestMain(suite{m, use})
}

// suite is the tests, with the cluster around them.
type suite struct {
	*testing.M
	use func(*lab.Cluster)
}

// Run returns the exit code.
func (s suite) Run() int {
	cluster, err := lab.Start(context.Background(), lab.Config{Members: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s.use(cluster)
	code := s.M.Run()
	if err := cluster.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Client returns a client of an endpoint, which is closed at the end of the test, if the
// test has not done so.
func Client(t *testing.T, endpoint string, opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialOptions: opts, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Context returns a context that ends long after the test should have.
func Context(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}
