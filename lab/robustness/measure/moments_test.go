package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness/history"
)

func TestMomentsTellWhenCallersGoOn(t *testing.T) {
	var m Meter
	m.Watch([]history.Scope{{All: true}, {All: true}})
	m.Lead(1, "m1", "m1") // before the first row
	m.Begin("leader-kill", 10*ms)
	m.Inject(20 * ms)
	done := func(k history.Kind, caller int, at, took time.Duration) {
		c := call((at-took)*ms, at*ms, history.OK)
		c.Kind, c.Caller = k, caller
		m.Observe(c)
	}
	done(history.LinearizableGet, 0, 25, 1)
	done(history.LinearizableGet, 0, 95, 1)
	m.Lead(100*ms, "m2", "m3")
	done(history.LinearizableGet, 0, 99, 1) // ended before, reported later
	done(history.LinearizableGet, 1, 130, 90)
	done(history.LinearizableGet, 1, 135, 5)
	done(history.LinearizableGet, 0, 180, 5)
	done(history.LinearizableGet, 1, 190, 5)
	done(history.Put, 4, 150, 5)
	done(history.Txn, 5, 110, 5)
	m.Deliver(1, nil, 120*ms)
	m.Deliver(1, []history.Key{{}}, 140*ms)
	m.Heal(200 * ms)
	m.End(300 * ms)
	done(history.Put, 1, 350, 5)

	row := m.Rows(0)[0]
	assert.Equal(t, Span{From: 20 * ms, To: 200 * ms}, row.Fault)
	require.Len(t, row.Moments, 1)
	assert.Equal(t, Moment{
		At: 100 * ms, Leader: "m2", Reporter: "m3",
		Gets:    Resumption{Callers: 2, Last: 80 * ms},
		Puts:    Resumption{Callers: 1, Last: 50 * ms},
		Watches: Resumption{Callers: 1, Last: 40 * ms},
	}, row.Moments[0])
}

func TestHeldCountsWhatWasCompletedUnderTheFault(t *testing.T) {
	var m Meter
	m.Begin("stop", 10*ms)
	m.Observe(call(11*ms, 15*ms, history.OK))
	m.Inject(20 * ms)
	m.Observe(call(18*ms, 22*ms, history.OK))
	m.Observe(call(18*ms, 23*ms, history.Failed))
	m.Observe(call(18*ms, 19*ms, history.OK)) // ended before, reported later
	m.Heal(40 * ms)
	m.Observe(call(25*ms, 45*ms, history.OK))
	m.Observe(call(25*ms, 35*ms, history.OK)) // ended before, reported later
	assert.EqualValues(t, 2, m.Rows(50 * ms)[0].Kinds[history.Put].Held)
}

func TestFaultThatIsNotHealedLastsAsLongAsItsRow(t *testing.T) {
	var m Meter
	m.Begin("stop", 10*ms)
	m.Inject(20 * ms)
	m.End(70 * ms)
	assert.Equal(t, Span{From: 20 * ms, To: 70 * ms}, m.Rows(0)[0].Fault)
}

func TestRepeatedEventsAreCounted(t *testing.T) {
	var m Meter
	m.Repeat(9)
	m.Begin("stop", 10*ms)
	m.Repeat(2)
	m.Repeat(1)
	assert.EqualValues(t, 3, m.Rows(20 * ms)[0].Watches.Repeated)
}
