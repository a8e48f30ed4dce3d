package clientv3_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// TestWatchLostAfterCreated loses the stream after the Created reply and before any other
// response. A put falls into the gap.
func TestWatchLostAfterCreated(t *testing.T) {
	tests := map[string]struct {
		opts  []OpOption
		first int64
	}{
		"from the past":   {[]OpOption{WithRev(3)}, 3},
		"from now on":     {nil, 5},
		"from the future": {[]OpOption{WithRev(7)}, 7},
	}
	for name, tt := range tests {
		for how, lose := range breaks {
			t.Run(name+", "+how, func(t *testing.T) {
				cluster, c := clienttest.StartClient(t, 3)
				put(t, cluster, "k", 3)
				lost := onResponse(cluster, func(call *fakeetcd.Call, resp *pb.WatchResponse) bool {
					assert.NoError(t, call.Send(resp))
					_, err := cluster.Put("k", "in the gap")
					assert.NoError(t, err)
					lose(call)
					return false
				})
				w := c.Watch(clienttest.Within(t), "k", tt.opts...)
				put(t, cluster, "k", 5)
				requireRevs(t, w, tt.first, 10)
				require.Equal(t, 1, lost.Ran())
				require.GreaterOrEqual(t, cluster.Count("Watch"), 2)
			})
		}
	}
}

// TestWatchLostAfterEvents loses every stream after it has delivered one more revision than the
// one before.
func TestWatchLostAfterEvents(t *testing.T) {
	const revisions = 20
	for how, lose := range breaks {
		t.Run(how, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 3)
			require.NoError(t, cluster.SetWatchOptions(fakeetcd.WatchOptions{BatchRevisions: 1}))
			last := put(t, cluster, "k", revisions)
			for streams := range 5 {
				events := 0
				onResponse(cluster, func(call *fakeetcd.Call, resp *pb.WatchResponse) bool {
					events += len(resp.Events)
					return events <= streams || sendThen(t, call, resp, lose)
				})
			}
			requireRevs(t, c.Watch(clienttest.Within(t), "k", WithRev(2)), 2, last)
			require.GreaterOrEqual(t, cluster.Count("Watch"), 6)
		})
	}
}

// TestWatchLostBetweenFragments loses the stream after each fragment of a response with
// transactions. No transaction is split or delivered twice.
func TestWatchLostBetweenFragments(t *testing.T) {
	const keys = 7 // in each transaction
	for at := 1; at <= 7; at++ {
		t.Run(fmt.Sprintf("after fragment %d", at), func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 3)
			require.NoError(t, cluster.SetWatchOptions(fakeetcd.WatchOptions{FragmentBytes: 400}))
			var puts []Op
			for i := range keys {
				puts = append(puts, OpPut(fmt.Sprintf("k%d", i), strings.Repeat("x", 100)))
			}
			var last int64
			for range 3 {
				resp, err := c.Txn(clienttest.Within(t)).Then(puts...).Commit()
				require.NoError(t, err)
				last = resp.Header.Revision
			}
			var fragments atomic.Int32
			lost := onResponse(cluster, func(call *fakeetcd.Call, resp *pb.WatchResponse) bool {
				if len(resp.Events) == 0 || int(fragments.Add(1)) != at {
					return true
				}
				assert.Equal(t, at < 7, resp.Fragment)
				return sendThen(t, call, resp, (*fakeetcd.Call).BreakConn)
			})
			revs, others := readTo(t, c.Watch(clienttest.Within(t), "k", WithPrefix(), WithRev(2), WithFragment()), last)
			require.Empty(t, others)
			require.Equal(t, 1, lost.Ran())
			require.EqualValues(t, at, fragments.Load())
			require.Len(t, revs, 3*keys)
			for i, rev := range revs {
				require.EqualValues(t, 2+i/keys, rev)
			}
		})
	}
}

// TestWatchCompactedMeanwhile compacts while the client is disconnected.
func TestWatchCompactedMeanwhile(t *testing.T) {
	for name, needed := range map[string]bool{"what is needed": true, "what was delivered": false} {
		t.Run(name, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 1)
			w := c.Watch(clienttest.Within(t), "k")
			seen := put(t, cluster, "k", 3)
			requireRevs(t, w, 2, seen)

			cluster.Member(0).Stop()
			last := put(t, cluster, "k", 4)
			compacted := seen + 1 // the next revision of the watch still exists
			if needed {
				compacted++
			}
			require.NoError(t, cluster.Compact(compacted))
			cluster.Member(0).Start()

			if !needed {
				requireRevs(t, w, seen+1, last)
				return
			}
			resp := requireEnd(t, w, rpctypes.ErrCompacted)
			require.Equal(t, compacted, resp.CompactRevision)
		})
	}
}
