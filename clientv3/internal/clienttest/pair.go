package clienttest

import (
	"testing"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// StartPair returns a cluster of two members over one store, and a client of each. A test can stop the member of one, and
// write through the other.
func StartPair(t testing.TB) (cluster *fakeetcd.Cluster, client, other *clientv3.Client) {
	t.Helper()
	cluster = Start(t, 2)
	connect := func(member int) *clientv3.Client {
		return Connect(t, cluster, clientv3.Config{Endpoints: []string{cluster.Member(member).Endpoint()}})
	}
	return cluster, connect(0), connect(1)
}
