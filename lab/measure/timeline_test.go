package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/history"
)

// drawn returns a meter with an open row that draws a timeline.
func drawn() (*Meter, *Timeline) {
	m, t := &Meter{}, &Timeline{}
	m.Draw(t)
	m.Begin("stop", ms)
	return m, t
}

func TestTimelineCountsCallsWhereTheyEnd(t *testing.T) {
	m, line := drawn()
	m.Observe(call(10*ms, 20*ms, history.OK))
	m.Observe(call(10*ms, 60*ms, history.Failed))
	m.Observe(call(10*ms, 70*ms, history.Unknown))
	m.Observe(call(10*ms, 70*ms, history.Abandoned))
	m.Observe(call(10*ms, 10*ms+LateAfter, history.OK))
	m.Observe(call(10*ms, 10*ms+LateAfter+1, history.OK))

	w := line.Window(0, 2*LateAfter)
	puts := w.Kinds[history.Put]
	assert.Len(t, puts.Late, int(2*LateAfter/Bucket))
	last := int((10*ms + LateAfter) / Bucket)
	assert.EqualValues(t, 1, puts.Completed[0])
	assert.EqualValues(t, 1, puts.Failed[1])
	assert.EqualValues(t, 1, puts.Unknown[1])
	assert.EqualValues(t, 1, puts.Completed[last])
	assert.EqualValues(t, 1, puts.Late[last])
	assert.EqualValues(t, 5, sum(puts.Completed)+sum(puts.Late)+sum(puts.Failed)+sum(puts.Unknown), "each once")
	assert.Zero(t, sum(w.Kinds[history.Txn].Completed))

	part := line.Window(60*ms, 110*ms)
	assert.Equal(t, Bucket, part.From, "the window begins with the bucket that its beginning lies in")
	assert.Equal(t, []int64{1, 0}, part.Kinds[history.Put].Failed)
	assert.Equal(t, []int64{0}, line.Window(time.Hour, time.Hour+1).Kinds[history.Put].Completed)
}

func sum(s []int64) (n int64) {
	for _, v := range s {
		n += v
	}
	return n
}

// TestTimelineShowsHowFarWatchesAreBehind has a watch that is silent from 40 ms to
// 240 ms: the age of what it owes grows all the while.
func TestTimelineShowsHowFarWatchesAreBehind(t *testing.T) {
	m, line := &Meter{}, &Timeline{}
	m.Draw(line)
	m.Watch([]history.Scope{{All: true}})
	m.Begin("stop", ms)
	write := func(seq int64, start, end time.Duration, o history.Outcome) history.Key {
		c := call(start, end, o)
		c.Key.Seq = seq
		m.Invoke(c)
		m.Observe(c)
		return c.Key
	}
	first, second := write(0, 10*ms, 20*ms, history.OK), write(1, 100*ms, 110*ms, history.OK)
	unknown := write(2, 130*ms, 230*ms, history.Unknown)
	m.Deliver(0, []history.Key{first, second, unknown}, 240*ms)
	write(3, 300*ms, 310*ms, history.OK)
	m.End(420 * ms)
	assert.Equal(t, []time.Duration{
		30 * ms, 80 * ms, 130 * ms, 180 * ms, 220 * ms, 0,
		40 * ms, 90 * ms, 110 * ms, 0, // what was never delivered is owed to the end
	}, line.Window(0, 500*ms).Lag)
}

func TestTimelineDrawsTheWorstOfManyWatches(t *testing.T) {
	var line Timeline
	line.owed(90*ms, 95*ms)
	line.owed(10*ms, 220*ms)
	line.owed(60*ms, 210*ms)
	line.owed(-ms, 5*ms)
	assert.Equal(t, []time.Duration{40 * ms, 90 * ms, 140 * ms, 190 * ms, 210 * ms}, line.Window(0, 250*ms).Lag)
}

func TestTimelineShowsLeases(t *testing.T) {
	m, line := drawn()
	for _, e := range []history.LeaseEvent{
		{Kind: history.LeaseGranted, At: 10 * ms},
		{Kind: history.LeaseRenewed, At: 60 * ms, Margin: 300 * ms},
		{Kind: history.LeaseRenewed, At: 70 * ms, Margin: 200 * ms},
		{Kind: history.LeaseRenewed, At: 80 * ms, Margin: 250 * ms},
		{Kind: history.LeaseRenewed, At: 110 * ms, Margin: -ms},
		{Kind: history.LeaseExpired, At: 160 * ms},
		{Kind: history.LeaseFailed, At: 160 * ms},
	} {
		m.Lease(e)
	}
	w := line.Window(0, 200*ms)
	assert.Equal(t, []time.Duration{noMargin, 200 * ms, 0, noMargin}, w.Margin)
	assert.Equal(t, []int64{0, 0, 0, 1}, w.Expired)
}

func TestTimelineShowsStatesAsBands(t *testing.T) {
	m, line := drawn()
	say := func(at time.Duration, states ...string) {
		said := map[string]string{}
		for i := range len(states) / 2 {
			said[states[2*i]] = states[2*i+1]
		}
		m.States(at, said)
	}
	say(10*ms, "a", "serving", "b", "serving")
	say(20*ms, "a", "serving", "b", "suspected")
	say(30*ms, "a", "serving", "b", "dead")
	say(40*ms, "a", "serving")
	say(50*ms, "a", "serving", "b", "dead")
	say(60*ms, "a", "serving", "b", "dead")
	assert.Equal(t, []Band{
		{"a", "serving", 10 * ms, 60 * ms},
		{"b", "serving", 10 * ms, 20 * ms},
		{"b", "suspected", 20 * ms, 30 * ms},
		{"b", "dead", 30 * ms, 30 * ms},
		{"b", "dead", 50 * ms, 60 * ms},
	}, line.Window(0, time.Second).Bands, "nothing was said of b between 30 and 50 ms")
	assert.Equal(t, []Band{{"a", "serving", 15 * ms, 25 * ms}, {"b", "serving", 15 * ms, 20 * ms}, {"b", "suspected", 20 * ms, 25 * ms}},
		line.Window(15*ms, 25*ms).Bands)
}

func TestWithoutATimelineNothingIsDrawn(t *testing.T) {
	var m Meter
	m.Begin("stop", ms)
	m.States(2*ms, map[string]string{"a": "serving"})
	m.Lease(history.LeaseEvent{Kind: history.LeaseRenewed, At: 2 * ms})
	m.Observe(call(2*ms, 3*ms, history.OK))
	m.End(4 * ms)
	assert.EqualValues(t, 1, m.Rows(0)[0].Kinds[history.Put].Completed)
}
