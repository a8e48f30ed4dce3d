// Package cache_test reads through a cache of a real cluster, also while members are stopped and cut off.
package cache_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// patience is far above what a test takes; one that hangs is ended by it.
const patience = 2 * time.Minute

func connect(t *testing.T, cluster *lab.Cluster) *clientv3.Client {
	t.Helper()
	return labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})
}
