package clientv3_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// watchCosts returns how many watch streams were opened, and how many creates of watches of the
// test were sent on them.
func watchCosts(cluster *fakeetcd.Cluster) (streams, creates int) {
	for _, call := range cluster.Calls("Watch") {
		streams++
		for _, req := range call.Requests {
			if r := req.(*pb.WatchRequest).GetCreateRequest(); r != nil && r.Key[0] == 'k' {
				creates++
			}
		}
	}
	return streams, creates
}

// While no member has a leader, watches are created once more, on a stream that does not require
// one, and stay on it. They lose nothing, then or when there is a leader again.
func TestWatchesWithoutLeaderAreNotCreatedAgain(t *testing.T) {
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d members", members), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 200
				cluster, c := clienttest.StartClient(t, members)
				watches := make([]WatchChan, n)
				for i := range watches {
					watches[i] = c.Watch(t.Context(), fmt.Sprintf("k%d", i))
				}
				cluster.SetLeader(nil)
				time.Sleep(time.Second)
				before, creates := watchCosts(cluster)
				assert.LessOrEqual(t, creates, 2*n+members)

				time.Sleep(30 * time.Second)
				after, again := watchCosts(cluster)
				assert.Equal(t, creates, again)
				assert.Less(t, after-before, 40)
				assert.GreaterOrEqual(t, after-before, 3, "each pause is shorter than 10 s")
				for i, w := range watches {
					rev := put(t, cluster, fmt.Sprintf("k%d", i), 1)
					requireRevs(t, w, rev, rev)
				}

				cluster.SetLeader(cluster.Member(0))
				time.Sleep(6 * time.Second)
				for i, w := range watches {
					rev := put(t, cluster, fmt.Sprintf("k%d", i), 1)
					requireRevs(t, w, rev, rev)
				}
				time.Sleep(time.Minute)
				_, moved := watchCosts(cluster)
				assert.GreaterOrEqual(t, moved, again+n)
				// The balancer may cut each member's calls once, if it learns late that there is a
				// leader.
				assert.LessOrEqual(t, moved, again+members*n)
			})
		})
	}
}
