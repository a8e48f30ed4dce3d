package watchcheck_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// withEvents returns the numbers of the responses that hold at least n events.
func withEvents(w *history.Watch, n int) (out []int) {
	for i, r := range w.Responses {
		if len(r.Events) >= n {
			out = append(out, i)
		}
	}
	return out
}

// anEvent chooses an event of a watch.
func anEvent(rng *rand.Rand, w *history.Watch) (response, event int) {
	responses := withEvents(w, 1)
	response = responses[rng.IntN(len(responses))]
	return response, rng.IntN(len(w.Responses[response].Events))
}

// mutations break a correct watch. They report false where the watch has
// no place for them; each breaks one of the promises.
var mutations = []struct {
	name   string
	change func(*rand.Rand, *history.Watch) bool
	breaks []watchcheck.Promise
}{
	{"drop an event", func(rng *rand.Rand, w *history.Watch) bool {
		r, e := anEvent(rng, w)
		w.Responses[r].Events = slices.Delete(w.Responses[r].Events, e, e+1)
		return true
	}, []watchcheck.Promise{watchcheck.Reliable, watchcheck.Resumable}},
	{"drop a response", func(rng *rand.Rand, w *history.Watch) bool {
		r, _ := anEvent(rng, w)
		drop(w, r)
		return true
	}, []watchcheck.Promise{watchcheck.Reliable, watchcheck.Resumable}},
	{"repeat an event", func(rng *rand.Rand, w *history.Watch) bool {
		r, e := anEvent(rng, w)
		w.Responses[r].Events = slices.Insert(w.Responses[r].Events, e, w.Responses[r].Events[e])
		return true
	}, []watchcheck.Promise{watchcheck.Unique}},
	{"repeat a response later", func(rng *rand.Rand, w *history.Watch) bool {
		r, _ := anEvent(rng, w)
		insert(w, r+1+rng.IntN(len(w.Responses)-r), w.Responses[r])
		return true
	}, []watchcheck.Promise{watchcheck.Unique}},
	{"swap two events", func(rng *rand.Rand, w *history.Watch) bool {
		r, e := anEvent(rng, w)
		s, f := anEvent(rng, w)
		if r == s && e == f {
			return false
		}
		w.Responses[r].Events[e], w.Responses[s].Events[f] = w.Responses[s].Events[f], w.Responses[r].Events[e]
		return true
	}, []watchcheck.Promise{watchcheck.Ordered}},
	{"split a revision", func(rng *rand.Rand, w *history.Watch) bool {
		for _, r := range withEvents(w, 2) {
			events := w.Responses[r].Events
			for e := 1; e < len(events); e++ {
				if events[e].ModRevision == events[e-1].ModRevision {
					rest := w.Responses[r]
					w.Responses[r].Events, rest.Events = slices.Clone(events[:e]), slices.Clone(events[e:])
					insert(w, r+1, rest)
					return true
				}
			}
		}
		return false
	}, []watchcheck.Promise{watchcheck.Atomic}},
	{"change a previous value", func(rng *rand.Rand, w *history.Watch) bool {
		r, e := anEvent(rng, w)
		event := &w.Responses[r].Events[e]
		if event.Prev == nil {
			event.Prev = &history.KeyValue{}
		}
		event.Prev.Value += "!"
		return true
	}, []watchcheck.Promise{watchcheck.PrevKV}},
	{"lose a previous value", func(rng *rand.Rand, w *history.Watch) bool {
		r, e := anEvent(rng, w)
		had := w.Responses[r].Events[e].Prev != nil
		w.Responses[r].Events[e].Prev = nil
		return had
	}, []watchcheck.Promise{watchcheck.PrevKV}},
	{"change a value", func(rng *rand.Rand, w *history.Watch) bool {
		r, e := anEvent(rng, w)
		w.Responses[r].Events[e].Value += "!"
		return true
	}, []watchcheck.Promise{watchcheck.Genuine}},
	{"change a creation", func(rng *rand.Rand, w *history.Watch) bool {
		r, e := anEvent(rng, w)
		event := &w.Responses[r].Events[e]
		if event.IsCreate() {
			event.CreateRevision--
		} else {
			event.CreateRevision = event.ModRevision
		}
		return event.Type == history.PutEvent
	}, []watchcheck.Promise{watchcheck.IsCreate}},
	{"change a key", func(rng *rand.Rand, w *history.Watch) bool {
		r, e := anEvent(rng, w)
		w.Responses[r].Events[e].Key = "A"
		return true
	}, []watchcheck.Promise{watchcheck.Filter}},
	{"a bookmark ahead of its time", func(rng *rand.Rand, w *history.Watch) bool {
		r, e := anEvent(rng, w)
		insert(w, r, bookmark(w.Responses[r].Events[e].ModRevision))
		return r > 0 || !w.Request.CreatedNotify
	}, []watchcheck.Promise{watchcheck.Bookmarkable}},
	{"a bookmark behind its time", func(rng *rand.Rand, w *history.Watch) bool {
		r, e := anEvent(rng, w)
		insert(w, r+1, bookmark(w.Responses[r].Events[e].ModRevision-1))
		return true
	}, []watchcheck.Promise{watchcheck.Bookmarkable}},
}

func TestRandomMutationsAreCaught(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			tried := 0
			for seed := range uint64(150) {
				rng := rand.New(rand.NewPCG(seed, 1))
				s := randomStore(rng)
				w := randomWatch(rng, s)
				if !m.change(rng, &w) {
					continue
				}
				tried++
				v, err := watchcheck.Check(s.reference(), []history.Watch{w})
				require.NoError(t, err)
				caught := slices.ContainsFunc(m.breaks, func(p watchcheck.Promise) bool { return v.Counts[p] > 0 })
				require.True(t, caught, "seed %d: %+v", seed, v.Violations)
			}
			require.Greater(t, tried, 30)
		})
	}
}

func ExampleCheck() {
	events := []history.Event{
		{KeyValue: history.KeyValue{Key: "a", Value: "1", CreateRevision: 2, ModRevision: 2, Version: 1}},
		{KeyValue: history.KeyValue{Key: "a", Value: "2", CreateRevision: 2, ModRevision: 3, Version: 2}},
	}
	// A watch from revision 2 sees only what happened at revision 3.
	w := history.Watch{
		Request:   history.WatchRequest{Key: "a", StartRevision: 2},
		Responses: []history.WatchResponse{{Revision: 3, Events: events[1:]}},
	}
	verdict, err := watchcheck.Check(watchcheck.Reference{Events: events, Through: 3}, []history.Watch{w})
	fmt.Println(err)
	for _, v := range verdict.Violations {
		fmt.Printf("%s: %s\n", v.Promise, v.Message)
	}
	// Output:
	// <nil>
	// resumable: watch 0 of a from revision 2: it begins with put a at revision 3 and skips 1 events before it, the first is put a at revision 2
}
