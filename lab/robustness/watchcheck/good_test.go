package watchcheck_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// sampleHistory is the history that the tests plant their faults in.
func sampleHistory() *store {
	s := newStore()
	s.commit("a")           // 2
	s.commit("b")           // 3
	s.commit("a", "b")      // 4
	s.commit("-a")          // 5
	s.commit("a")           // 6
	s.commit("z")           // 7
	s.commit("b", "a", "z") // 8
	s.commit("-b")          // 9
	s.commit("a")           // 10
	return s
}

// both asks for the keys a and b of the history, from the beginning.
var both = history.WatchRequest{Key: "a", RangeEnd: "c", StartRevision: 2, PrevKV: true, ProgressNotify: true}

func compaction(revision int64) history.WatchResponse {
	return history.WatchResponse{
		Revision: 10, Canceled: true, CompactRevision: revision, Err: rpctypes.ErrCompacted,
	}
}

func bookmark(revision int64) history.WatchResponse { return history.WatchResponse{Revision: revision} }

// evaluate checks one watch of the history, which was compacted to revisions 3
// and 5.
func evaluate(t *testing.T, w history.Watch) watchcheck.Verdict {
	t.Helper()
	ref := sampleHistory().reference()
	ref.Compactions = []int64{3, 5}
	v, err := watchcheck.Check(ref, []history.Watch{w})
	require.NoError(t, err)
	return v
}

func TestGoodHistories(t *testing.T) {
	tests := []struct {
		name    string
		request history.WatchRequest
		start   int64
		change  func(*history.Watch)
	}{
		{name: "everything", request: both, start: 2},
		{name: "one key", request: history.WatchRequest{Key: "a", StartRevision: 2}, start: 2},
		{name: "from a key on", request: history.WatchRequest{Key: "b", RangeEnd: "\x00", StartRevision: 4}, start: 4},
		{name: "no puts", request: history.WatchRequest{Key: "a", RangeEnd: "c", StartRevision: 2, NoPut: true}, start: 2},
		{name: "no deletes", request: history.WatchRequest{Key: "a", RangeEnd: "c", StartRevision: 2, NoDelete: true}, start: 2},
		{name: "no events at all", request: history.WatchRequest{Key: "c", StartRevision: 2}, start: 2},
		{name: "a start in the future", request: history.WatchRequest{Key: "a", StartRevision: 99}, start: 99},
		{name: "a start in the Created response", request: history.WatchRequest{Key: "a", CreatedNotify: true}, start: 5},
		{
			name: "a creation that was reported late", request: history.WatchRequest{Key: "a", CreatedNotify: true}, start: 5,
			change: func(w *history.Watch) { w.Responses[0].Revision = 8 },
		},
		{name: "an unknown start", request: history.WatchRequest{Key: "a"}, start: 6},
		{
			name: "an unknown start in time", request: history.WatchRequest{Key: "a"}, start: 6,
			change: func(w *history.Watch) { w.StartedBy = 6 },
		},
		{
			name: "an unknown start and nothing but a bookmark", request: history.WatchRequest{Key: "a", ProgressNotify: true}, start: 99,
			change: func(w *history.Watch) { w.Responses = append(w.Responses, bookmark(10)) },
		},
		{
			name: "several revisions in a response", request: both, start: 2,
			change: func(w *history.Watch) {
				w.Responses[2].Events = append(w.Responses[2].Events, w.Responses[3].Events...)
				w.Responses[2].Revision = 9 // as a member sends that catches up
				w.Responses = append(w.Responses[:3], w.Responses[4:]...)
			},
		},
		{
			name: "bookmarks, one of them twice", request: both, start: 2,
			change: func(w *history.Watch) { w.Responses = append(w.Responses, bookmark(10), bookmark(10)) },
		},
		{
			name: "bookmarks that another watch requested", request: history.WatchRequest{Key: "a", StartRevision: 2}, start: 2,
			change: func(w *history.Watch) {
				w.ProgressRequested = true
				w.Responses = append(w.Responses, bookmark(10))
			},
		},
		{
			name: "a reader who left in the middle", request: both, start: 2,
			change: func(w *history.Watch) { w.End, w.Responses = history.LeftByReader, w.Responses[:2] },
		},
		{
			name: "a reader who left before there was a watch", request: history.WatchRequest{Key: "a", CreatedNotify: true}, start: 99,
			change: func(w *history.Watch) { w.End, w.Responses = history.LeftByReader, nil },
		},
		{
			name: "compacted at the start", request: both, start: 99,
			change: func(w *history.Watch) {
				w.End, w.Responses = history.EndedByItself, []history.WatchResponse{compaction(3)}
			},
		},
		{
			name: "compacted on the way", request: both, start: 2,
			change: func(w *history.Watch) {
				w.End, w.Responses = history.EndedByItself, append(w.Responses[:2], compaction(5))
			},
		},
		{
			name: "compacted where the start is unknown", request: history.WatchRequest{Key: "c"}, start: 2,
			change: func(w *history.Watch) {
				w.End, w.Responses = history.EndedByItself, []history.WatchResponse{compaction(5)}
			},
		},
		{
			name: "a negative start", request: history.WatchRequest{Key: "a", StartRevision: -1}, start: 99,
			change: func(w *history.Watch) {
				w.End, w.Responses = history.EndedByItself, []history.WatchResponse{{Canceled: true, Err: rpctypes.ErrCompacted}}
			},
		},
		{
			name: "previous values below a compaction are gone", request: both, start: 2,
			change: func(w *history.Watch) { w.Responses[2].Events[0].Prev, w.Responses[3].Events[0].Prev = nil, nil },
		},
		{
			name: "refused", request: history.WatchRequest{Key: "a", CreatedNotify: true}, start: 99,
			change: func(w *history.Watch) {
				w.End, w.Responses = history.EndedByItself, []history.WatchResponse{{Canceled: true, Err: rpctypes.ErrPermissionDenied}}
			},
		},
		{
			name: "a leader was required and lost", request: history.WatchRequest{Key: "a", RequireLeader: true}, start: 2,
			change: func(w *history.Watch) {
				w.End, w.Responses = history.EndedByItself, append(w.Responses[:1], history.WatchResponse{Canceled: true, Err: rpctypes.ErrNoLeader})
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := sampleHistory().watch(tt.request, tt.start)
			if tt.change != nil {
				tt.change(&w)
			}
			v := evaluate(t, w)
			assert.True(t, v.OK(), "%+v", v.Violations)
			assert.EqualValues(t, 1, v.Watches)
		})
	}
}

func TestReferenceThatContradictsItself(t *testing.T) {
	tests := []struct {
		name   string
		change func(*watchcheck.Reference)
		want   string
	}{
		{
			"a put is missing", func(r *watchcheck.Reference) { r.Events = append(r.Events[:3:3], r.Events[4:]...) },
			"lacks an event: put b at revision 8 has version 3, created at revision 3; expected version 2",
		},
		{
			"a creation is missing", func(r *watchcheck.Reference) { r.Events = r.Events[1:] },
			"lacks an event: put a at revision 4",
		},
		{
			"a put before a delete is missing", func(r *watchcheck.Reference) { r.Events = r.Events[4:5] },
			"lacks an event: delete a at revision 5, and the key did not exist",
		},
		{
			"an event is there twice", func(r *watchcheck.Reference) { r.Events = append(r.Events[:1:1], r.Events...) },
			"has put a at revision 2 twice",
		},
		{
			"two events are swapped", func(r *watchcheck.Reference) {
				r.Events[0], r.Events[1] = r.Events[1], r.Events[0]
			},
			"out of order: put a at revision 2 comes after put b at revision 3",
		},
		{"it ends early", func(r *watchcheck.Reference) { r.Through = 9 }, "claims to end at revision 9 and holds put a at revision 10"},
		{"it ends before everything is settled", func(r *watchcheck.Reference) { r.Settled = 12 }, "below revision 12"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref := sampleHistory().reference()
			tt.change(&ref)
			_, err := watchcheck.Check(ref, nil)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
