package mirror_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startFake(t *testing.T, members int) (*fakeetcd.Cluster, *clientv3.Client) {
	t.Helper()
	etcd := etcdtest.Fake(t, etcdtest.Config{Members: members})
	return etcd.Fake, etcd.Client
}
