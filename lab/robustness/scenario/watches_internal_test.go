package scenario

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

func kv(key, value string, created, modified, version int64) history.Event {
	return history.Event{KeyValue: history.KeyValue{
		Key: key, Value: value, CreateRevision: created, ModRevision: modified, Version: version,
	}}
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

// reference is that of all puts.
func reference() watchcheck.Reference {
	return watchcheck.Reference{Events: puts(), Through: 4, Settled: 4}
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
		{"one never happened", append(puts(), kv("/p/put/0/3", "put/0/3", 5, 5, 1)), map[watchcheck.Promise]int{watchcheck.Genuine: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSeen(1)
			w := s.watch(everything, time.Second)
			deliver(s, 0, w, tt.deliver...)
			got, err := s.evaluate(reference())
			require.NoError(t, err)
			assert.Equal(t, tt.want, got.Verdict.Counts, "%v", got.Verdict.Violations)
			assert.EqualValues(t, 4, got.Through)
			assert.EqualValues(t, 1, got.Verdict.Watches)
		})
	}
}

func TestSettledWatchesAreReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeen(1)
		r := &run{seen: s}
		w := s.watch(history.WatchRequest{Key: "/p/", RangeEnd: "/p0", StartRevision: 2}, 0)
		const last = 50 * time.Millisecond
		time.AfterFunc(last, func() { deliver(s, 0, w, puts()...) })
		time.AfterFunc(last+settleGrace/2, func() { deliver(s, 0, w, puts()[2]) })
		began := time.Now()
		r.settleWatches(t.Context(), []int64{4})
		assert.InDelta(t, last+settleGrace, time.Since(began), float64(settlePoll))
		synctest.Wait()
		got, err := s.evaluate(reference())
		require.NoError(t, err)
		assert.Equal(t, map[watchcheck.Promise]int{watchcheck.Unique: 1}, got.Verdict.Counts, "%v", got.Verdict.Violations)
	})
}

func TestWatchesThatNeverSettleAreNotAwaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeen(1)
		began := time.Now()
		(&run{seen: s}).settleWatches(t.Context(), []int64{4})
		assert.Equal(t, settleTimeout, time.Since(began))
	})
}

func TestBehind(t *testing.T) {
	s := newSeen(2)
	newest := newestOf([]history.Scope{{All: true}, {Space: history.Puts, Caller: 1}}, "/p/", append(puts(), kv("/q/put/1/0", "", 5, 5, 1)))
	assert.Equal(t, []int64{4, 0}, newest)
	assert.True(t, s.behind(newest))
	w := s.watch(history.WatchRequest{}, 0)
	deliver(s, 0, w, puts()[:2]...)
	assert.True(t, s.behind(newest))
	deliver(s, 0, w, puts()[2])
	assert.False(t, s.behind(newest), "nothing was written in the scope of the second")
}
