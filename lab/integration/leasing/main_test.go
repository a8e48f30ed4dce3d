// Package leasing_test runs the leasing cache on a server: whether it is linearizable
// through lost sessions, and whether it gets on with the official client's.
package leasing_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
)

// endpoint is that of the only member of the cluster that all tests share. Each has its
// own prefix.
var endpoint string

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(onCluster{m})
}

// onCluster runs the tests while the shared cluster does.
type onCluster struct{ *testing.M }

// Run returns the exit code.
func (m onCluster) Run() int {
	cluster, err := lab.Start(context.Background(), lab.Config{Members: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	endpoint = cluster.Members()[0].DirectEndpoint()
	code := m.M.Run()
	if err := cluster.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

var prefixes atomic.Int64

// newPrefix returns a prefix that no other test uses, nor another run of this one.
func newPrefix(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(t.Name(), "#", prefixes.Add(1), "/")
}

// patience is far above what any wait takes.
const patience = time.Minute

func newClient(t *testing.T, endpoint string, opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialOptions: opts, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
