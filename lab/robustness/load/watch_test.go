package load

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

	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
)

// page is what a book has of one watch.
type page struct {
	reader    int
	req       history.WatchRequest
	asked     time.Duration
	returned  time.Duration
	responses []history.WatchResponse
	ends      []WatchEnd
}

func (b *book) Watch(reader int, req history.WatchRequest, asked time.Duration) WatchLog {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &page{reader: reader, req: req, asked: asked}
	b.watches = append(b.watches, p)
	return p
}

func (p *page) Returned(at time.Duration)            { p.returned = at }
func (p *page) Delivered(resp history.WatchResponse) { p.responses = append(p.responses, resp) }
func (p *page) Ended(end WatchEnd)                   { p.ends = append(p.ends, end) }

// script is a client.Watcher of which each watch plays the next part; when there is none
// left, and for readers other than the first, the watch stays silent. Creating a
// watch takes 10 ms.
type script struct {
	mu     sync.Mutex
	scenes [][]history.WatchResponse
}

func (s *script) Watch(ctx context.Context, req history.WatchRequest) iter.Seq[history.WatchResponse] {
	time.Sleep(10 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	var scene []history.WatchResponse
	silent := len(s.scenes) == 0 || req.RangeEnd != "/lab0"
	if !silent {
		scene, s.scenes = s.scenes[0], s.scenes[1:]
	}
	return func(yield func(history.WatchResponse) bool) {
		for _, resp := range scene {
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
		b := &book{}
		l := startAll(client.Services{Store: newMemory(), Watcher: &script{}}, b, 5)
		time.Sleep(time.Second)
		end(t.Context(), l)
		requests := map[int]history.WatchRequest{}
		for _, p := range b.watches {
			requests[p.reader] = p.req
			assert.Zero(t, p.asked)
			assert.Equal(t, 10*time.Millisecond, p.returned)
			require.Len(t, p.ends, 1)
			assert.Equal(t, WatchEnd{Ending: history.StillOpen, At: p.ends[0].At}, p.ends[0])
			assert.GreaterOrEqual(t, p.ends[0].At, time.Second)
		}
		assert.Equal(t, map[int]history.WatchRequest{
			0: {Key: "/lab/", RangeEnd: "/lab0", StartRevision: 2},
			1: {Key: "/lab/put/1/", RangeEnd: "/lab/put/10", StartRevision: 2},
			2: {Key: "/lab/txn/2/", RangeEnd: "/lab/txn/20", StartRevision: 2},
			3: {Key: "/lab/counter/3", StartRevision: 2},
			4: {Key: "/lab/", RangeEnd: "/lab0", StartRevision: 2},
		}, requests)
		assert.Len(t, b.watches, 5, "a watch that does not end by itself is the only one of its reader")
	})
}

func TestReadersGoOnWhereTheirWatchEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := rpctypes.ErrPermissionDenied
		watcher := &script{scenes: [][]history.WatchResponse{
			{wrote(2, 3), wrote(4), {Revision: 9, Canceled: true, Err: refused}},
			{}, // the channel is closed at once
			{{Revision: 9, Canceled: true, CompactRevision: 8, Err: rpctypes.ErrCompacted}},
			{wrote(8, 9)},
		}}
		b := &book{}
		l := startAll(client.Services{Store: newMemory(), Watcher: watcher}, b, 1)
		time.Sleep(time.Second)
		l.Stop(t.Context())
		synctest.Wait()
		require.Len(t, b.watches, 5)
		assert.Empty(t, b.watches[4].ends, "the watches outlive the callers")
		l.EndWatches()

		var starts []int64
		for i, p := range b.watches {
			starts = append(starts, p.req.StartRevision)
			require.Len(t, p.ends, 1)
			if i < 4 {
				assert.Equal(t, history.EndedByItself, p.ends[0].Ending)
				assert.Equal(t, rewatchPause, b.watches[i+1].asked-p.ends[0].At)
			}
		}
		assert.Equal(t, []int64{2, 5, 5, 8, 10}, starts)
		assert.Equal(t, []string{"PermissionDenied", noReason, "OutOfRange", noReason}, []string{
			b.watches[0].ends[0].Code, b.watches[1].ends[0].Code, b.watches[2].ends[0].Code, b.watches[3].ends[0].Code,
		})
		assert.Equal(t, refused, b.watches[0].ends[0].Err)
		require.NoError(t, b.watches[1].ends[0].Err)
		require.Len(t, b.watches[0].responses, 3)
		assert.Equal(t, 30*time.Millisecond, b.watches[0].responses[0].At, "when the reader took it")
		assert.Equal(t, wrote(2, 3).Events, b.watches[0].responses[0].Events)
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &book{}
				l := startAll(client.Services{Store: newMemory(), Watcher: lastWord{tt.last}}, b, 1)
				time.Sleep(time.Second)
				end(t.Context(), l)
				require.Len(t, b.watches, 1)
				require.Len(t, b.watches[0].ends, 1)
				assert.Equal(t, tt.want, b.watches[0].ends[0].Ending)
				assert.Equal(t, tt.last.Err, b.watches[0].ends[0].Err)
			})
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
