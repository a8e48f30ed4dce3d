// Package integration_test tests the client, its caches and resolvers with real servers, and beside the official client and
// parts of gRPC.
package integration_test

import (
	"os"
	"testing"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// testTimeout is far above what a test takes; one that hangs is ended by it. Our policies ask a backend that was slow every 30 s at
// least, and on a busy machine it may answer late again.
const testTimeout = 2 * time.Minute

// cluster has one member, which tests share that change nothing but keys of their own.
var cluster *lab.Cluster

func TestMain(m *testing.M) {
	if endpoint := os.Getenv(serveEnv); endpoint != "" {
		os.Exit(serveUntilKilled(endpoint))
	}
	labtest.Main(m, func(c *lab.Cluster) { cluster = c })
}

// connect returns a client of the shared cluster.
func connect(t *testing.T) *clientv3.Client {
	return labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})
}
