package faults

import (
	"context"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/robustness/history"
)

// script is a client.Watcher whose watches deliver the next of responses each. When none are
// left, and for other ranges than all of the run's keys, a watch stays silent. Creating a
// watch takes 10 ms.
type script struct {
	mu        sync.Mutex
	responses [][]history.WatchResponse
	late      time.Duration // before the first response of a watch
}

func (s *script) Watch(ctx context.Context, req history.WatchRequest) iter.Seq[history.WatchResponse] {
	time.Sleep(10 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	var next []history.WatchResponse
	silent := len(s.responses) == 0 || req.RangeEnd != "/quorate-lab/00000000000000010"
	if !silent {
		next, s.responses = s.responses[0], s.responses[1:]
	}
	return func(yield func(history.WatchResponse) bool) {
		time.Sleep(s.late)
		for _, resp := range next {
			time.Sleep(20 * time.Millisecond)
			if !yield(resp) {
				return
			}
		}
		if silent {
			<-ctx.Done()
		}
	}
}

func wrote(revisions ...int64) history.WatchResponse {
	resp := history.WatchResponse{Revision: revisions[len(revisions)-1]}
	for _, r := range revisions {
		resp.Events = append(resp.Events, history.Event{KeyValue: history.KeyValue{Key: "/lab/put/0/0", ModRevision: r}})
	}
	return resp
}

func TestReadersCoverEveryScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newMemory(), 5, &script{})
		time.Sleep(time.Second)
		r.end()
		var requests []history.WatchRequest
		for i, watch := range r.load.watches() {
			requests = append(requests, watch.Request)
			assert.Equal(t, i, watch.ID)
			assert.Equal(t, 10*time.Millisecond, watch.Returned)
			assert.Equal(t, history.StillOpen, watch.End)
			assert.GreaterOrEqual(t, watch.Ended, time.Second)
		}
		const p = "/quorate-lab/0000000000000001"
		assert.Equal(t, []history.WatchRequest{
			{Key: p + "/", RangeEnd: p + "0", StartRevision: 2},
			{Key: p + "/put/1/", RangeEnd: p + "/put/10", StartRevision: 2},
			{Key: p + "/counter/2/", RangeEnd: p + "/counter/20", StartRevision: 2},
			{Key: p + "/txn/3/", RangeEnd: p + "/txn/30", StartRevision: 2},
			{Key: p + "/", RangeEnd: p + "0", StartRevision: 2},
		}, requests)
	})
}

func TestReadersGoOnWhereTheirWatchEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watcher := &script{responses: [][]history.WatchResponse{
			{wrote(2, 3), wrote(4), {Revision: 9, Canceled: true, Err: rpctypes.ErrPermissionDenied}},
			{}, // the channel is closed at once
			{{Revision: 9, Canceled: true, CompactRevision: 8, Err: rpctypes.ErrCompacted}},
			{wrote(8, 9)},
		}}
		r := start(t, newMemory(), 1, watcher)
		time.Sleep(time.Second)
		r.load.stop()
		synctest.Wait()
		watches := r.load.watches()
		require.Len(t, watches, 4, "the fifth outlives the callers")
		r.load.endWatches()

		watches = r.load.watches()
		require.Len(t, watches, 5)
		var starts []int64
		for i, w := range watches {
			starts = append(starts, w.Request.StartRevision)
			if i < 4 {
				assert.Equal(t, history.EndedByItself, w.End)
				assert.Equal(t, rewatchPause+10*time.Millisecond, watches[i+1].Returned-w.Ended)
			}
		}
		assert.Equal(t, []int64{2, 5, 5, 8, 10}, starts)
		require.Len(t, watches[0].Responses, 3)
		assert.Equal(t, 30*time.Millisecond, watches[0].Responses[0].At, "when the reader took it")
		assert.Equal(t, wrote(2, 3).Events, watches[0].Responses[0].Events)
	})
}

// A watch that fails at the moment at which the load ends it has failed.
func TestReadersWhoseWatchFailedAsTheyLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		last history.WatchResponse
		want history.Ending
	}{
		"failed":     {history.WatchResponse{Revision: 9, Canceled: true, Err: rpctypes.ErrPermissionDenied}, history.EndedByItself},
		"compacted":  {history.WatchResponse{Revision: 9, CompactRevision: 8}, history.EndedByItself},
		"not failed": {wrote(2), history.StillOpen},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			r := start(t, newMemory(), 1, lastWord{tt.last})
			time.Sleep(time.Second)
			r.end()
			watches := r.load.watches()
			require.Len(t, watches, 1)
			assert.Equal(t, tt.want, watches[0].End)
		})
	}
}

// lastWord is a client.Watcher whose watches respond once, as their context ends.
type lastWord struct{ resp history.WatchResponse }

func (w lastWord) Watch(ctx context.Context, _ history.WatchRequest) iter.Seq[history.WatchResponse] {
	return func(yield func(history.WatchResponse) bool) {
		<-ctx.Done()
		yield(w.resp)
	}
}

// settleWatches returns how long the load waits for readers, when the store has written keys at revisions 4 and 5, the second of
// them outside of the prefix.
func (r *run) settleWatches() time.Duration {
	began := time.Now()
	r.load.settleWatches([]history.Event{
		{KeyValue: history.KeyValue{Key: r.prefix + "put/0/0", ModRevision: 4}},
		{KeyValue: history.KeyValue{Key: "/elsewhere/put/0/1", ModRevision: 5}},
	})
	return time.Since(began)
}

// A watch that delivers the last event late, and then again, is read to the second one.
func TestSettledWatchesAreReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newMemory(), 2, &script{late: startPause, responses: [][]history.WatchResponse{{wrote(2), wrote(3), wrote(4), wrote(4)}}})
		r.load.stop()
		assert.InDelta(t, 70*time.Millisecond+settleGrace, r.settleWatches(), float64(2*settlePoll))
		r.load.endWatches()
		assert.Len(t, r.load.watches()[0].Responses, 4)
	})
}

func TestWatchesThatNeverSettleAreNotAwaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newMemory(), 1, &script{})
		assert.Equal(t, settleTimeout, r.settleWatches())
		r.end()
	})
}
