package recipes_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
)

// patience is far above what anything that a test waits for takes.
const patience = time.Minute

// cluster has one member, which all tests share. Each has keys of its own.
var cluster *lab.Cluster

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(suite{m})
}

// suite runs the tests over a cluster that is gone when leaks are looked for.
type suite struct{ *testing.M }

func (s suite) Run() int {
	var err error
	if cluster, err = lab.Start(context.Background(), lab.Config{Members: 1}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := s.M.Run()
	if err := cluster.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// connect returns a client that reaches the member through its link.
func connect(t *testing.T) *clientv3.Client { return newClient(t, cluster.Members()[0].Endpoint()) }

func newClient(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// within returns a context that ends long after the test should have.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
