package clientv3_test

import (
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	. "github.com/quorate/quorate/clientv3"
)

// TestWatchOutlivesMembersThatLoseTheLeaderInTurn restarts a cluster member by member, with the watch on each of them when
// it loses its leader. The others have one all the time, so a caller who requires a leader has nothing to be told.
func TestWatchOutlivesMembersThatLoseTheLeaderInTurn(t *testing.T) {
	const members = 3
	cluster, c := startFake(t, members)
	streams := scriptWatches(t, cluster, members)
	starting := startWatch(WithRequireLeader(within(t)), c, "k")
	var w WatchChan
	for range members {
		s := take(t, streams)
		s.created(s.createRequest().WatchId, 1)
		if w == nil {
			w = started(t, starting)
		}
		time.Sleep(1100 * time.Millisecond) // from a second on a stream on which nothing happens shows a member at work
		s.fail(rpctypes.ErrGRPCNoLeader)
	}
	requireRevs(t, w, 2, put(t, cluster, "k", 3))
}
