package watchcheck_test

import (
	"fmt"
	"slices"
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
var both = request{Key: "a", RangeEnd: "c", StartRevision: 2, PrevKV: true, ProgressNotify: true}

func compaction(revision int64) history.WatchResponse {
	return history.WatchResponse{
		Revision: 10, Canceled: true, CompactRevision: revision, Err: rpctypes.ErrCompacted,
	}
}

func bookmark(revision int64) history.WatchResponse { return history.WatchResponse{Revision: revision} }

// request is what a watch asks for.
type request = history.WatchRequest

// seen is a watch that saw everything it should from a revision on.
type seen struct {
	request request
	from    int64
}

// whole saw all of the keys a and b, ofA all of a.
var (
	whole = seen{both, 2}
	ofA   = seen{request{Key: "a", StartRevision: 2}, 2}
)

// change is what becomes of a watch, and its responses, by their number.
type change func(*history.Watch)

func inserted(n int, r ...history.WatchResponse) change {
	return func(w *history.Watch) { w.Responses = slices.Insert(w.Responses, n, r...) }
}

func added(r ...history.WatchResponse) change {
	return func(w *history.Watch) { w.Responses = append(w.Responses, r...) }
}

// repeated has responses come again: from one to before another, before that.
func repeated(from, to int) change {
	return func(w *history.Watch) { inserted(to, w.Responses[from:to]...)(w) }
}

func swapped(i, j int) change {
	return func(w *history.Watch) { w.Responses[i], w.Responses[j] = w.Responses[j], w.Responses[i] }
}

// headed gives a response the header of another revision.
func headed(n int, revision int64) change {
	return func(w *history.Watch) { w.Responses[n].Revision = revision }
}

// spoiled changes the first event of a response.
func spoiled(response int, spoil func(*history.Event)) change {
	return func(w *history.Watch) { spoil(&w.Responses[response].Events[0]) }
}

// ends makes a watch end after its first n responses and some more.
func ends(how history.Ending, n int, more ...history.WatchResponse) change {
	return func(w *history.Watch) { w.End, w.Responses = how, append(w.Responses[:n], more...) }
}

// failed makes a watch be cancelled after its first n responses.
func failed(n int, err error) change {
	return ends(history.EndedByItself, n, history.WatchResponse{Canceled: true, Err: err})
}

func startedBy(revision int64) change {
	return func(w *history.Watch) { w.StartedBy = revision }
}

// evaluate checks one watch of the history, which was compacted to revisions 3 and 5, and later to 9, after a change, if any.
func evaluate(t *testing.T, saw seen, c change) watchcheck.Verdict {
	t.Helper()
	w := sampleHistory().watch(saw.request, saw.from)
	if c != nil {
		c(&w)
	}
	ref := sampleHistory().reference()
	ref.Compactions = []history.Answer{{Revision: 3}, {Revision: 5}, {Sent: 1, Revision: 9}}
	v, err := watchcheck.Check(ref, []history.Watch{w})
	require.NoError(t, err)
	return v
}

func TestGoodHistories(t *testing.T) {
	created := request{Key: "a", CreatedNotify: true}
	tests := []struct {
		name   string
		watch  seen
		change change
	}{
		{"everything", whole, nil},
		{"one key", ofA, nil},
		{"from a key on", seen{request{Key: "b", RangeEnd: "\x00", StartRevision: 4}, 4}, nil},
		{"no puts", seen{request{Key: "a", RangeEnd: "c", StartRevision: 2, NoPut: true}, 2}, nil},
		{"no deletes", seen{request{Key: "a", RangeEnd: "c", StartRevision: 2, NoDelete: true}, 2}, nil},
		{"no events at all", seen{request{Key: "c", StartRevision: 2}, 2}, nil},
		{"a start in the future", seen{request{Key: "a", StartRevision: 99}, 99}, nil},
		{"a start in the Created response", seen{created, 5}, nil},
		{"a creation that was reported late", seen{created, 5}, headed(0, 8)},
		{"an unknown start", seen{request{Key: "a"}, 6}, nil},
		{"an unknown start in time", seen{request{Key: "a"}, 6}, startedBy(6)},
		{"an unknown start and nothing but a bookmark", seen{request{Key: "a", ProgressNotify: true}, 99}, added(bookmark(10))},
		{"several revisions in a response", whole, func(w *history.Watch) {
			w.Responses[2].Events = append(w.Responses[2].Events, w.Responses[3].Events...)
			w.Responses[2].Revision = 9 // as a member sends that catches up
			w.Responses = append(w.Responses[:3], w.Responses[4:]...)
		}},
		{"bookmarks, one of them twice", whole, added(bookmark(10), bookmark(10))},
		{"bookmarks that another watch requested", ofA, func(w *history.Watch) {
			w.ProgressRequested = true
			w.Responses = append(w.Responses, bookmark(10))
		}},
		{"a reader who left in the middle", whole, ends(history.LeftByReader, 2)},
		{"a reader who left before there was a watch", seen{created, 99}, ends(history.LeftByReader, 0)},
		{"compacted at the start", whole, ends(history.EndedByItself, 0, compaction(3))},
		{"compacted on the way", whole, ends(history.EndedByItself, 2, compaction(5))},
		{"compacted where the start is unknown", seen{request{Key: "c"}, 2}, ends(history.EndedByItself, 0, compaction(5))},
		{"a negative start", seen{request{Key: "a", StartRevision: -1}, 99}, failed(0, rpctypes.ErrCompacted)},
		{"previous values below a compaction are gone", whole, func(w *history.Watch) {
			w.Responses[2].Events[0].Prev, w.Responses[3].Events[0].Prev = nil, nil
		}},
		{"a later compaction, and a later response", whole, func(w *history.Watch) { w.Responses[6].Events[0].Prev, w.Responses[6].At = nil, 1 }},
		{"refused", seen{created, 99}, failed(0, rpctypes.ErrPermissionDenied)},
		{"a leader was required and lost", seen{request{Key: "a", RequireLeader: true}, 2}, failed(1, rpctypes.ErrNoLeader)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := evaluate(t, tt.watch, tt.change)
			assert.True(t, v.OK(), "%+v", v.Violations)
			assert.EqualValues(t, 1, v.Watches)
		})
	}
}

func TestReferenceThatContradictsItself(t *testing.T) {
	without := func(from, to int) func(*watchcheck.Reference) {
		return func(r *watchcheck.Reference) { r.Events = slices.Delete(r.Events, from, to) }
	}
	tests := []struct {
		name   string
		change func(*watchcheck.Reference)
		want   string
	}{
		{"a put is missing", without(3, 4), "lacks an event: put b at revision 8 has version 3, created at revision 3; expected version 2"},
		{"a creation is missing", without(0, 1), "lacks an event: put a at revision 4"},
		{"puts before a delete are missing", without(0, 4), "lacks an event: delete a at revision 5, and the key did not exist"},
		{
			"an event is there twice", func(r *watchcheck.Reference) { r.Events = append(r.Events[:1:1], r.Events...) },
			"has put a at revision 2 twice",
		},
		{
			"two events are swapped", func(r *watchcheck.Reference) { r.Events[0], r.Events[1] = r.Events[1], r.Events[0] },
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

// store is a key-value store that keeps its history, by etcd's rules.
type store struct {
	revision int64
	keys     map[string]history.KeyValue
	events   []history.Event
}

func newStore() *store { return &store{revision: 1, keys: map[string]history.KeyValue{}} }

// commit makes one revision of changes: "a" puts the key a, "-a" deletes it.
func (s *store) commit(changes ...string) {
	s.revision++
	for _, change := range changes {
		if key := change[1:]; change[0] == '-' {
			delete(s.keys, key)
			s.events = append(s.events, history.Event{
				Type: history.DeleteEvent, KeyValue: history.KeyValue{Key: key, ModRevision: s.revision},
			})
			continue
		}
		kv, ok := s.keys[change]
		if !ok {
			kv = history.KeyValue{Key: change, CreateRevision: s.revision}
		}
		kv.Value, kv.ModRevision = fmt.Sprintf("%s@%d", change, s.revision), s.revision
		kv.Version++
		s.keys[change] = kv
		s.events = append(s.events, history.Event{Type: history.PutEvent, KeyValue: kv})
	}
}

func (s *store) reference() watchcheck.Reference {
	return watchcheck.Reference{Events: s.events, Through: s.revision, Settled: s.revision}
}

// watch returns a watch that saw everything it should, from the revision start on,
// each revision in a response of its own, and is still open.
func (s *store) watch(r history.WatchRequest, start int64) history.Watch {
	w := history.Watch{ID: 1, Request: r}
	if r.CreatedNotify {
		w.Responses = append(w.Responses, history.WatchResponse{Created: true, Revision: start - 1})
	}
	before := map[string]*history.KeyValue{}
	for i := range s.events {
		e := s.events[i]
		prevKV := before[e.Key]
		before[e.Key] = nil
		if e.Type == history.PutEvent {
			kv := e.KeyValue
			before[e.Key] = &kv
		}
		if e.ModRevision < start || !r.Matches(e) {
			continue
		}
		if r.PrevKV && prevKV != nil {
			kv := *prevKV
			e.Prev = &kv
		}
		last := len(w.Responses) - 1
		if last < 0 || w.Responses[last].Created || w.Responses[last].Revision != e.ModRevision {
			w.Responses = append(w.Responses, history.WatchResponse{Revision: e.ModRevision})
			last++
		}
		w.Responses[last].Events = append(w.Responses[last].Events, e)
	}
	return w
}
