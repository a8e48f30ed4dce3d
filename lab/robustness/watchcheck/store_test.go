package watchcheck_test

import (
	"fmt"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

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
