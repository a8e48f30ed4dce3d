package clientv3_test

import (
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// TestWatchOutlivesMembersThatLoseTheLeaderInTurn restarts a cluster member by member while the
// watch is on it. The others have a leader all the time, so a watch that requires one continues.
func TestWatchOutlivesMembersThatLoseTheLeaderInTurn(t *testing.T) {
	const members = 3
	cluster, c := clienttest.StartClient(t, members)
	streams := scriptWatches(t, cluster, members)
	starting := startWatch(WithRequireLeader(clienttest.Within(t)), c, "k")
	var w WatchChan
	for range members {
		s := take(t, streams)
		s.created(s.createRequest().WatchId, 1)
		if w == nil {
			w = started(t, starting)
		}
		time.Sleep(1100 * time.Millisecond) // a stream that is quiet for a second shows that its member works
		s.fail(rpctypes.ErrGRPCNoLeader)
	}
	requireRevs(t, w, 2, put(t, cluster, "k", 3))
}
