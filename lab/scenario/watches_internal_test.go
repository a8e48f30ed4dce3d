package scenario

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/check"
	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/load"
	"github.com/quorate/quorate/lab/report"
	"github.com/quorate/quorate/lab/watchcheck"
)

func kv(key, value string, created, modified, version int64) history.Event {
	return history.Event{KeyValue: history.KeyValue{
		Key: key, Value: value, CreateRevision: created, ModRevision: modified, Version: version,
	}}
}

// stored are the keys at the end of a run of two puts and three increments.
func stored() []check.Stored {
	once := func(space history.Space, caller int, seq, revision int64) check.Stored {
		k := history.Key{Space: space, Caller: caller, Seq: seq}
		return check.Stored{Key: k, Value: k.Value(), ModRevision: revision, Version: 1}
	}
	return []check.Stored{
		{Key: history.CounterOf(0), Value: "2", ModRevision: 6, Version: 2},
		{Key: history.CounterOf(1), Value: "1", ModRevision: 5, Version: 1},
		once(history.Puts, 0, 0, 2), once(history.Puts, 0, 1, 4),
		once(history.Txns, 0, 0, 3), once(history.Txns, 0, 7, 6), once(history.Txns, 1, 0, 5),
	}
}

func TestReferenceHoldsEveryChange(t *testing.T) {
	ref := newReference("/p/", math.MaxInt64)
	for _, s := range stored() {
		ref.see(s)
	}
	assert.Equal(t, []history.Event{
		kv("/p/put/0/0", "put/0/0", 2, 2, 1),
		kv("/p/counter/0", "1", 3, 3, 1), kv("/p/txn/0/0", "txn/0/0", 3, 3, 1),
		kv("/p/put/0/1", "put/0/1", 4, 4, 1),
		kv("/p/counter/1", "1", 5, 5, 1), kv("/p/txn/1/0", "txn/1/0", 5, 5, 1),
		kv("/p/counter/0", "2", 3, 6, 2), kv("/p/txn/0/7", "txn/0/7", 6, 6, 1),
	}, ref.complete())
	assert.Equal(t, map[history.Scope]int64{
		{All: true}: 6, {Space: history.Puts}: 4, {Space: history.Txns}: 6, {Space: history.Counters}: 6,
		{Space: history.Txns, Caller: 1}: 5, {Space: history.Counters, Caller: 1}: 5,
	}, ref.newest)
}

func TestReferenceEndsAtItsBound(t *testing.T) {
	ref := newReference("/p/", 4)
	for _, s := range stored() {
		ref.see(s)
	}
	events := ref.complete()
	require.Len(t, events, 4)
	assert.Equal(t, kv("/p/put/0/1", "put/0/1", 4, 4, 1), events[3])
}

// deliver gives a reader one response for each revision.
func deliver(s *seen, reader int, w *history.Watch, events ...history.Event) {
	for _, e := range events {
		s.response(reader, w, history.WatchResponse{Revision: e.ModRevision, Events: []history.Event{e}})
	}
}

func puts() []history.Event {
	return []history.Event{
		kv("/p/put/0/0", "put/0/0", 2, 2, 1), kv("/p/put/0/1", "put/0/1", 3, 3, 1), kv("/p/put/0/2", "put/0/2", 4, 4, 1),
	}
}

// refOf returns a reference of all puts.
func refOf(s *seen) *reference {
	ref := newReference("/p/", s.cutAt())
	for i, e := range puts() {
		ref.see(check.Stored{Key: history.Key{Space: history.Puts, Seq: int64(i)}, Value: e.Value, ModRevision: e.ModRevision, Version: 1})
	}
	ref.revision = 4
	return ref
}

func TestSeenIsChecked(t *testing.T) {
	everything := history.WatchRequest{Key: "/p/", RangeEnd: "/p0", StartRevision: 2}
	tests := []struct {
		name    string
		deliver []history.Event
		want    map[watchcheck.Promise]int
	}{
		{"all is well", puts(), nil},
		{"the last is lost", puts()[:2], map[watchcheck.Promise]int{watchcheck.Reliable: 1}},
		{"one comes twice", append(puts(), puts()[2]), map[watchcheck.Promise]int{watchcheck.Unique: 1}},
		{"two change places", []history.Event{puts()[0], puts()[2], puts()[1]}, map[watchcheck.Promise]int{watchcheck.Ordered: 1}},
		{"one is executed after the keys were read", append(puts(), kv("/p/put/0/3", "put/0/3", 5, 5, 1)), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSeen(1)
			w := s.watch(everything, time.Second)
			deliver(s, 0, w, tt.deliver...)
			got, err := s.evaluate(refOf(s), 0)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got.Verdict.Counts, "%v", got.Verdict.Violations)
			assert.EqualValues(t, 4, got.Through)
			assert.EqualValues(t, 1, got.Verdict.Watches)
		})
	}
}

func TestSeenIsBounded(t *testing.T) {
	s := newSeen(2)
	s.room = 4
	everything := history.WatchRequest{Key: "/p/", RangeEnd: "/p0", StartRevision: 2}
	first, second := s.watch(everything, 0), s.watch(everything, 0)
	deliver(s, 0, first, puts()...)
	deliver(s, 1, second, puts()...)
	assert.Len(t, second.Responses, 1)
	assert.Nil(t, s.watch(everything, 0), "nobody would look at what it delivers")
	s.ended(first, load.WatchEnd{Ending: history.EndedByItself, At: time.Second})
	s.ended(nil, load.WatchEnd{Ending: history.EndedByItself})
	assert.Equal(t, time.Second, first.Ended)

	got, err := s.evaluate(refOf(s), 0)
	require.NoError(t, err)
	assert.True(t, got.Verdict.OK(), "what was not kept is not missed: %v", got.Verdict.Violations)
	assert.EqualValues(t, 4, got.Through)
	assert.EqualValues(t, 4, got.Verdict.Events)
	scopes := []history.Scope{{All: true}, {All: true}}
	assert.False(t, s.behind(scopes, refOf(s).newest), "what was not kept was delivered all the same")
}

// A watch that ended before the cut ended, as it always did.
func TestEndsBeforeTheCutAreChecked(t *testing.T) {
	s := newSeen(2)
	s.room = 4
	everything := history.WatchRequest{Key: "/p/", RangeEnd: "/p0", StartRevision: 2}
	first, second := s.watch(everything, 0), s.watch(everything, 0)
	deliver(s, 0, first, puts()...)
	s.ended(first, load.WatchEnd{Ending: history.EndedByItself, At: time.Second})
	deliver(s, 1, second, puts()...)
	got, err := s.evaluate(refOf(s), 0)
	require.NoError(t, err)
	assert.Equal(t, map[watchcheck.Promise]int{watchcheck.Terminal: 1}, got.Verdict.Counts, "it gave no reason: %v", got.Verdict.Violations)
}

func TestWhatIsLostAfterTheCutIsAViolation(t *testing.T) {
	for _, tt := range []struct {
		name string
		room int
		lost int64
		want bool
	}{
		{"after the cut", 2, 3, false},
		{"nothing lost", 2, 0, true},
		{"without a cut the check knows better", 100, 3, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSeen(1)
			s.room = tt.room
			w := s.watch(history.WatchRequest{Key: "/p/", RangeEnd: "/p0", StartRevision: 2}, 0)
			deliver(s, 0, w, puts()...)
			got, err := s.evaluate(refOf(s), tt.lost)
			require.NoError(t, err)
			rep := report.Report{Watches: got}
			assert.Equal(t, tt.want, rep.OK())
			if !tt.want {
				require.Len(t, got.Verdict.Violations, 1)
				assert.Equal(t, 1, rep.Violations())
				assert.Contains(t, got.Verdict.Violations[0].Message, "3 events were owed and never delivered")
			}
		})
	}
}

func TestSettledWatchesAreReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeen(1)
		r := &run{cfg: Config{Callers: 1}, seen: s}
		w := s.watch(history.WatchRequest{Key: "/p/", RangeEnd: "/p0", StartRevision: 2}, 0)
		ref := refOf(s)
		const last = 50 * time.Millisecond
		time.AfterFunc(last, func() { deliver(s, 0, w, puts()...) })
		time.AfterFunc(last+settleGrace/2, func() { deliver(s, 0, w, puts()[2]) })
		began := time.Now()
		r.settleWatches(t.Context(), ref)
		assert.InDelta(t, last+settleGrace, time.Since(began), float64(settlePoll))
		got, err := s.evaluate(ref, 0)
		require.NoError(t, err)
		assert.Equal(t, map[watchcheck.Promise]int{watchcheck.Unique: 1}, got.Verdict.Counts, "%v", got.Verdict.Violations)
	})
}

func TestWatchesThatNeverSettleAreNotAwaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeen(1)
		began := time.Now()
		(&run{cfg: Config{Callers: 1}, seen: s}).settleWatches(t.Context(), refOf(s))
		assert.Equal(t, settleTimeout, time.Since(began))
	})
}

func TestBehind(t *testing.T) {
	s := newSeen(2)
	scopes := []history.Scope{{All: true}, {Space: history.Puts, Caller: 1}}
	newest := refOf(s).newest
	assert.True(t, s.behind(scopes, newest))
	deliver(s, 0, nil, puts()[:2]...)
	assert.True(t, s.behind(scopes, newest))
	deliver(s, 0, nil, puts()[2])
	assert.False(t, s.behind(scopes, newest), "nothing was written in the scope of the second")
}

func TestUpToCutsInsideAResponse(t *testing.T) {
	responses := []history.WatchResponse{{Revision: 3, Events: puts()[:2]}, {Revision: 4, Events: puts()[2:]}}
	assert.Equal(t, responses, upTo(4, responses))
	assert.Equal(t, responses[:1], upTo(3, responses))
	assert.Equal(t, []history.WatchResponse{{Revision: 3, Events: puts()[:1]}}, upTo(2, responses))
	assert.Len(t, responses[0].Events, 2, "the original stays")
}
