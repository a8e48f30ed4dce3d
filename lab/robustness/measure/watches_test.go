package measure

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness/history"
)

// watched is a meter of watches, with the calls of caller 0.
type watched struct {
	Meter
}

// watching returns a meter with a watch on every key, one on what caller 0 puts, and
// one on its counter.
func watching() *watched {
	m := &watched{}
	m.Watch([]history.Scope{{All: true}, {Space: history.Puts}, {Space: history.Counters}})
	m.Begin("row", 0)
	return m
}

func putKey(seq int64) history.Key { return history.Key{Space: history.Puts, Seq: seq} }

// put makes a put of caller 0 from start to end.
func (m *watched) put(seq int64, start, end time.Duration, o history.Outcome) {
	c := call(start, end, o)
	c.Key = putKey(seq)
	m.Invoke(c)
	m.Observe(c)
}

func (m *watched) stats(t *testing.T, now time.Duration) WatchStats {
	t.Helper()
	rows := m.Rows(now)
	require.NotEmpty(t, rows)
	return rows[len(rows)-1].Watches
}

func TestDelayCountsFromTheAcknowledgement(t *testing.T) {
	tests := []struct {
		name  string
		put   func(m *watched) // put number 0, invoked at 10 ms, and its delivery
		delay time.Duration
	}{
		{"after it", func(m *watched) {
			m.put(0, 10*ms, 20*ms, history.OK)
			m.Deliver(1, []history.Key{putKey(0)}, 27*ms)
		}, 7 * ms},
		{"before it", func(m *watched) {
			c := call(10*ms, 20*ms, history.OK)
			c.Key = putKey(0)
			m.Invoke(c)
			m.Deliver(1, []history.Key{putKey(0)}, 15*ms)
			m.Observe(c)
		}, 0},
		{"before the meter is told of it", func(m *watched) {
			c := call(10*ms, 20*ms, history.OK)
			c.Key = putKey(0)
			m.Invoke(c)
			m.Deliver(1, []history.Key{putKey(0)}, 21*ms)
			m.Observe(c)
		}, 1 * ms},
		{"an unknown outcome has none", func(m *watched) {
			m.put(0, 10*ms, 20*ms, history.Unknown)
			m.Deliver(1, []history.Key{putKey(0)}, 27*ms)
		}, 0},
		{"an unknown outcome that another watch saw before", func(m *watched) {
			m.put(0, 10*ms, 20*ms, history.Unknown)
			m.Deliver(0, []history.Key{putKey(0)}, 27*ms)
			m.Deliver(1, []history.Key{putKey(0)}, 30*ms)
		}, 3 * ms},
		{"nor has one that is told later", func(m *watched) {
			c := call(10*ms, 20*ms, history.Unknown)
			c.Key = putKey(0)
			m.Invoke(c)
			m.Deliver(1, []history.Key{putKey(0)}, 12*ms)
			m.Observe(c)
		}, 0},
		{"a second delivery counts for nothing", func(m *watched) {
			m.put(0, 10*ms, 20*ms, history.OK)
			m.Deliver(1, []history.Key{putKey(0)}, 27*ms)
			m.Deliver(1, []history.Key{putKey(0)}, 50*ms)
		}, 7 * ms},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := watching()
			tt.put(m)
			s := m.stats(t, 100*ms)
			assert.Positive(t, s.Delivered)
			assert.Equal(t, tt.delay, s.DelayMax)
			if s.Delivered == 1 {
				assert.GreaterOrEqual(t, s.DelayP50, tt.delay)
			}
			assert.LessOrEqual(t, s.DelayP99, tt.delay+tt.delay/100)
		})
	}
}

func TestEventsBelongToTheRowOfTheirWrite(t *testing.T) {
	m := watching()
	m.put(0, 10*ms, 20*ms, history.OK)
	m.put(1, 30*ms, 40*ms, history.OK)
	m.Begin("stop", 100*ms)
	m.Deliver(0, []history.Key{putKey(0)}, 150*ms)
	m.put(2, 160*ms, 170*ms, history.OK)
	m.Begin("kill", 200*ms)
	m.End(300 * ms)
	m.Deliver(1, []history.Key{putKey(0), putKey(2)}, 310*ms)
	rows := m.Rows(time.Hour)
	assert.EqualValues(t, 2, rows[0].Watches.Delivered)
	assert.Equal(t, 290*ms, rows[0].Watches.DelayMax)
	assert.EqualValues(t, 2, rows[0].Watches.Undelivered, "the second put by both watches")
	assert.EqualValues(t, 1, rows[1].Watches.Delivered)
	assert.EqualValues(t, 1, rows[1].Watches.Undelivered)
	assert.Zero(t, rows[2].Watches.Delivered)
	assert.Zero(t, rows[2].Watches.Undelivered)
}

func TestUnexpectedEventsAreNotLost(t *testing.T) {
	for _, o := range []history.Outcome{history.Failed, history.Unknown, history.Abandoned} {
		m := watching()
		m.put(0, 10*ms, 20*ms, o)
		s := m.stats(t, 100*ms)
		assert.Zero(t, s.Undelivered, o)
		assert.Zero(t, s.LongestSilence, o)
	}
	m := watching()
	stranger := history.Key{Space: history.Txns, Caller: 7}
	m.Deliver(0, []history.Key{stranger}, 20*ms)
	assert.Zero(t, m.stats(t, 100*ms).Delivered)
}

func TestLongestSilence(t *testing.T) {
	deliver := func(m *watched, seq int64, at time.Duration) {
		m.Deliver(0, []history.Key{putKey(seq)}, at)
		m.Deliver(1, []history.Key{putKey(seq)}, at)
	}
	tests := []struct {
		name string
		do   func(m *watched)
		want time.Duration
	}{
		{"nothing is owed", func(m *watched) {
			m.put(0, 0, ms, history.OK)
			deliver(m, 0, ms)
		}, 0},
		{"begins with the debt", func(m *watched) {
			m.put(0, 0, 30*ms, history.OK)
			deliver(m, 0, 40*ms)
		}, 10 * ms},
		{"begins anew with each delivery", func(m *watched) {
			m.put(0, 0, 10*ms, history.OK)
			m.put(1, 10*ms, 20*ms, history.OK)
			deliver(m, 0, 40*ms)
			deliver(m, 1, 65*ms)
		}, 30 * ms},
		{"goes on to the end of the row", func(m *watched) {
			m.put(0, 0, 10*ms, history.OK)
		}, 90 * ms},
		{"is that of one watch", func(m *watched) {
			m.put(0, 0, 10*ms, history.OK)
			m.Deliver(0, []history.Key{putKey(0)}, 11*ms)
			m.Deliver(1, []history.Key{putKey(0)}, 50*ms)
		}, 40 * ms},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := watching()
			tt.do(m)
			live := m.Rows(100 * ms)
			m.Begin("next", 100*ms)
			ended := m.Rows(100 * ms)
			assert.Equal(t, tt.want, ended[0].Watches.LongestSilence)
			live[0].Open = false
			assert.Empty(t, cmp.Diff(ended[0], live[0]), "a row that ends now reads as the live one did")
			assert.Zero(t, ended[1].Watches.LongestSilence, "a silence begins anew with a row")
		})
	}
}

// txn makes a txn of caller 0 from start to end.
func (m *watched) txn(seq, want int64, start, end time.Duration, o history.Outcome, applied bool) {
	c := history.Call{
		Kind: history.Txn, Key: history.Key{Space: history.Txns, Seq: seq}, Want: want,
		Start: start, End: end, Outcome: o, Applied: applied,
	}
	m.Invoke(c)
	m.Observe(c)
}

func counterAt(value int64) history.Key { return history.Key{Space: history.Counters, Seq: value} }

func TestTxnsWriteTheirCounterToo(t *testing.T) {
	m := watching()
	m.txn(0, 0, 10*ms, 20*ms, history.OK, true)
	m.txn(1, 5, 20*ms, 30*ms, history.OK, false)
	s := m.stats(t, 100*ms)
	assert.EqualValues(t, 3, s.Undelivered, "both keys of the first by the watch on all, the counter by its own")
	m.Deliver(0, []history.Key{counterAt(1), {Space: history.Txns}}, 22*ms)
	m.Deliver(2, []history.Key{counterAt(1)}, 24*ms)
	s = m.stats(t, 100*ms)
	assert.Zero(t, s.Undelivered)
	assert.EqualValues(t, 3, s.Delivered)
	assert.Equal(t, 4*ms, s.DelayMax)
}

func TestIncrementTriedAgain(t *testing.T) {
	tests := []struct {
		name  string
		again func(m *watched)
		delay time.Duration
	}{
		{"the first was executed", func(m *watched) {
			m.Deliver(2, []history.Key{counterAt(1)}, 50*ms)
			m.txn(1, 0, 60*ms, 70*ms, history.OK, false)
		}, 0},
		{"the second was executed", func(m *watched) {
			m.txn(1, 0, 60*ms, 70*ms, history.OK, true)
			m.Deliver(2, []history.Key{counterAt(1)}, 75*ms)
		}, 5 * ms},
		{"the first was, as shows during the second", func(m *watched) {
			c := history.Call{
				Kind: history.Txn, Key: history.Key{Space: history.Txns, Seq: 1}, Start: 60 * ms, End: 70 * ms,
			}
			m.Invoke(c)
			m.Deliver(2, []history.Key{counterAt(1)}, 65*ms)
			m.Observe(c)
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := watching()
			m.txn(0, 0, 10*ms, 20*ms, history.Unknown, false)
			tt.again(m)
			s := m.stats(t, 100*ms)
			assert.EqualValues(t, 1, s.Delivered)
			assert.Equal(t, tt.delay, s.DelayMax)
		})
	}
}

func TestDeliveredWritesAreForgotten(t *testing.T) {
	m := watching()
	for seq := range int64(100) {
		at := time.Duration(seq) * ms
		m.put(seq, at, at, history.OK)
		m.Deliver(0, []history.Key{putKey(seq)}, at)
		m.Deliver(1, []history.Key{putKey(seq)}, at)
	}
	m.put(100, 100*ms, 101*ms, history.Failed)
	assert.Empty(t, m.watches.writes)
}

func TestEndedWatches(t *testing.T) {
	m := watching()
	m.EndWatch("Unavailable", errors.New("gone"))
	m.EndWatch("Unavailable", errors.New("gone again"))
	m.End(ms)
	m.EndWatch("Unavailable", nil)
	s := m.stats(t, ms)
	assert.EqualValues(t, 2, s.Ended)
	assert.Equal(t, map[string]int64{"Unavailable": 2}, s.Codes)
	assert.Equal(t, map[string]string{"watch Unavailable": "gone"}, m.ErrorSamples())
}

func TestAMeterWithoutWatches(t *testing.T) {
	m := &watched{}
	m.Begin("row", 0)
	m.put(0, 0, ms, history.OK)
	assert.Equal(t, WatchStats{}, m.stats(t, 10*ms))
	assert.Empty(t, m.watches.writes)
}
