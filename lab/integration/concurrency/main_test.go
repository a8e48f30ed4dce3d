// Package concurrency_test runs locks, elections and transactions of Quorate and of the
// official client on one server.
package concurrency_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	official "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
)

// endpoints are those of a cluster of one member that all tests share. Each has its own
// prefix.
var endpoints []string

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
	endpoints = cluster.Endpoints()
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
	return fmt.Sprint(t.Name(), "#", prefixes.Add(1))
}

// patience is far above what any test takes.
const patience = time.Minute

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func newClient(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func newOfficialClient(t *testing.T) *official.Client {
	t.Helper()
	c, err := official.New(official.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
