package fakeetcd

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

func startWatch(t *testing.T, o WatchOptions) (*Cluster, watching) {
	t.Helper()
	cluster := start(t, 1)
	require.NoError(t, cluster.SetWatchOptions(o))
	return cluster, openWatch(t, cluster.Member(0))
}

func mustPut(t *testing.T, cluster *Cluster, key, value string) (rev int64) {
	t.Helper()
	rev, err := cluster.Put(key, value)
	require.NoError(t, err)
	return rev
}

func (w watching) next() *pb.WatchResponse {
	w.t.Helper()
	resp, err := w.Recv()
	require.NoError(w.t, err)
	return resp
}

func TestWatchOptionsAreChecked(t *testing.T) {
	cluster := start(t, 1)
	for _, o := range []WatchOptions{{FragmentBytes: -1}, {BatchRevisions: -1}, {ProgressInterval: -1}} {
		assert.ErrorContains(t, cluster.SetWatchOptions(o), "-1")
	}
}

func TestWatchFragments(t *testing.T) {
	const limit = 300
	cluster, w := startWatch(t, WatchOptions{FragmentBytes: limit})
	for _, size := range []int{100, 100, 100, 10, 10, 400, 10} {
		mustPut(t, cluster, "k", strings.Repeat("x", size))
	}
	tests := []struct {
		request *pb.WatchCreateRequest
		want    []int // events in each response
	}{
		{&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 2, Fragment: true}, []int{2, 3, 1, 1}},
		{&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 2}, []int{7}},
		{&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 7, Fragment: true}, []int{1, 1}},
		{&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 8, Fragment: true}, []int{1}},
	}
	for id, tt := range tests {
		w.create(tt.request)
		w.expect(&pb.WatchResponse{Header: at(8), WatchId: int64(id), Created: true})
		var got []int
		rev := tt.request.StartRevision
		for more := true; more; {
			resp := w.next()
			got = append(got, len(resp.Events))
			assert.EqualValues(t, id, resp.WatchId)
			assert.EqualValues(t, 8, resp.Header.Revision)
			if len(resp.Events) > 1 && tt.request.Fragment {
				assert.Less(t, proto.Size(resp), limit)
			}
			for _, e := range resp.Events {
				assert.Equal(t, rev, e.Kv.ModRevision)
				rev++
			}
			more = resp.Fragment
		}
		assert.Equal(t, tt.want, got)
	}
}

// A watch that starts in the past first receives batches whose headers are ahead of their events, and then one response
// per revision.
func TestWatchBatches(t *testing.T) {
	cluster, w := startWatch(t, WatchOptions{BatchRevisions: 2})
	for i := range 5 {
		mustPut(t, cluster, "k", fmt.Sprint(i))
	}
	w.create(&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 2})
	w.expect(&pb.WatchResponse{Header: at(6), Created: true})
	for _, want := range [][]*mvccpb.Event{
		{putEvent("k", "0", 2, 2, 1), putEvent("k", "1", 2, 3, 2)},
		{putEvent("k", "2", 2, 4, 3), putEvent("k", "3", 2, 5, 4)},
		{putEvent("k", "4", 2, 6, 5)},
	} {
		w.expect(&pb.WatchResponse{Header: at(6), Events: want})
	}
	mustPut(t, cluster, "k", "5")
	mustPut(t, cluster, "k", "6")
	w.expect(&pb.WatchResponse{Header: at(7), Events: []*mvccpb.Event{putEvent("k", "5", 2, 7, 6)}})
	w.expect(&pb.WatchResponse{Header: at(8), Events: []*mvccpb.Event{putEvent("k", "6", 2, 8, 7)}})
}

// A progress request is ignored while a watcher is behind.
func TestWatchBatchesAndProgress(t *testing.T) {
	cluster := start(t, 1)
	require.NoError(t, cluster.SetWatchOptions(WatchOptions{BatchRevisions: 1}))
	mustPut(t, cluster, "k", "0")
	mustPut(t, cluster, "k", "1")
	reached, release := make(chan struct{}), make(chan struct{})
	cluster.Once("Watch", func(c *Call) {
		c.OnSend(func(resp proto.Message) bool {
			if events := resp.(*pb.WatchResponse).Events; len(events) > 0 && events[0].Kv.ModRevision == 2 {
				close(reached)
				_ = c.Hold(release)
			}
			return true
		})
	})
	w := openWatch(t, cluster.Member(0))
	w.create(&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 2})
	w.expect(&pb.WatchResponse{Header: at(3), Created: true})
	<-reached
	w.askProgress()
	require.Eventually(t, func() bool { return len(cluster.Calls("Watch")[0].Requests) == 2 }, 5*time.Minute, time.Millisecond)
	close(release)
	assert.Len(t, w.next().Events, 1)
	assert.Len(t, w.next().Events, 1)
	w.askProgress()
	w.expect(&pb.WatchResponse{Header: at(3), WatchId: noWatcher})
}

func TestWatchProgressInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, w := startWatch(t, WatchOptions{ProgressInterval: 20 * time.Millisecond})
		w.create(&pb.WatchCreateRequest{Key: []byte("quiet")})
		w.create(&pb.WatchCreateRequest{Key: []byte("k"), ProgressNotify: true})
		w.create(&pb.WatchCreateRequest{Key: []byte("k"), ProgressNotify: true, StartRevision: 100})
		for id := range int64(3) {
			w.expect(&pb.WatchResponse{Header: at(1), WatchId: id, Created: true})
		}
		w.expect(&pb.WatchResponse{Header: at(1), WatchId: 1})
		w.expect(&pb.WatchResponse{Header: at(1), WatchId: 1})
		mustPut(t, cluster, "other", "")
		for resp := w.next(); resp.Header.Revision != 2; resp = w.next() {
			assert.EqualValues(t, 1, resp.WatchId)
		}
	})
}

// A watch that was up to date receives events from before a compaction.
func TestWatchUpToDateIsNotCompacted(t *testing.T) {
	cluster := start(t, 1)
	release := make(chan struct{})
	cluster.Once("Watch", func(c *Call) {
		c.OnSend(func(resp proto.Message) bool {
			return resp.(*pb.WatchResponse).Created || c.Hold(release) == nil
		})
	})
	w := openWatch(t, cluster.Member(0))
	w.create(&pb.WatchCreateRequest{Key: []byte("k")})
	w.expect(&pb.WatchResponse{Header: at(1), Created: true})
	for range 3 {
		mustPut(t, cluster, "k", "")
	}
	require.NoError(t, cluster.Compact(4))
	close(release)
	for rev := range int64(3) {
		w.expect(&pb.WatchResponse{Header: at(2 + rev), Events: []*mvccpb.Event{putEvent("k", "", 2, 2+rev, 1+rev)}})
	}
}

func TestKineWatches(t *testing.T) {
	_, w := startWatch(t, WatchOptions{Kine: true})
	w.askProgress()
	assert.EqualValues(t, -1, w.next().WatchId, "progress without a watch")
	create := func(id int64) *pb.WatchResponse {
		w.create(&pb.WatchCreateRequest{Key: []byte("k"), WatchId: id})
		return w.next()
	}
	refused := create(7)
	assert.True(t, refused.Created && refused.Canceled)
	assert.Equal(t, "rpc error: code = InvalidArgument desc = etcdserver: unsupported options in watch request", refused.CancelReason)
	for id := range int64(2) {
		resp := create(0)
		assert.Equal(t, id+1, resp.WatchId)
		assert.True(t, resp.Created && !resp.Canceled)
		assert.Zero(t, resp.Header.ClusterId)
		assert.EqualValues(t, 1, resp.Header.Revision)
	}
}
