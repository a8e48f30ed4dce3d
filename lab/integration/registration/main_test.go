// Package registration_test has services find each other through real etcd with resolver/etcd while processes are killed and
// servers replaced, and beside the official client.
package registration_test

import (
	"os"
	"testing"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// cluster has one member, which all tests share.
var cluster *lab.Cluster

func TestMain(m *testing.M) {
	if endpoint := os.Getenv(serveEnv); endpoint != "" {
		os.Exit(serveUntilKilled(endpoint))
	}
	labtest.Main(m, func(c *lab.Cluster) { cluster = c })
}

func connect(t *testing.T) *clientv3.Client {
	return labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})
}
