package health_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func note(e *health.Entry, kinds ...health.Kind) health.Change {
	var c health.Change
	for _, k := range kinds {
		c = e.Note(health.Evidence{Kind: k, At: t0})
	}
	return c
}

func TestEntryStatus(t *testing.T) {
	table := health.NewTable()
	e := table.Acquire("a:1")
	defer e.Release()
	assert.Equal(t, &health.Status{Endpoint: "a:1"}, e.Load())

	served := health.Evidence{Kind: health.Served, At: t0.Add(1)}
	assert.Equal(t, health.Change{Endpoint: "a:1", To: health.Serving, Evidence: served}, e.Note(served))
	before := e.Load()
	assert.Equal(t, &health.Status{Endpoint: "a:1", State: health.Serving, Since: t0.Add(1), Evidence: served}, before)

	unchanged := e.Note(health.Evidence{Kind: health.Answered, At: t0.Add(2)})
	assert.Equal(t, health.Serving, unchanged.From)
	assert.Equal(t, health.Serving, unchanged.To)
	assert.Same(t, before, e.Load(), "nothing changed")

	late, refused := errors.New("late"), errors.New("refused")
	e.Note(health.Evidence{Kind: health.Answered, At: t0.Add(3), Err: late})
	assert.Equal(t, late, e.Load().LastErr)
	assert.Equal(t, t0.Add(3), e.Load().LastErrAt)
	assert.Equal(t, health.Serving, e.Load().State)
	e.Failed(refused, t0.Add(4))
	e.Failed(nil, t0.Add(5))
	note(e, health.Served)
	assert.Equal(t, refused, e.Load().LastErr, "it stays")
	assert.Equal(t, t0.Add(4), e.Load().LastErrAt)
	assert.Equal(t, served, e.Load().Evidence, "what led to the state")
	assert.Equal(t, &health.Status{Endpoint: "a:1", State: health.Serving, Since: t0.Add(1), Evidence: served}, before,
		"what was read never changes")
}

func TestEntryCountsAcrossNotes(t *testing.T) {
	e := health.NewTable().Acquire("a")
	defer e.Release()
	note(e, health.Missed)
	assert.Equal(t, health.Dead, note(e, health.Missed).To)
	note(e, health.Late)
	assert.Equal(t, health.Slow, note(e, health.Served, health.Served).To)
	assert.Equal(t, health.Serving, note(e, health.Served).To)
}

func TestEntryRole(t *testing.T) {
	table := health.NewTable()
	e := table.Acquire("a")
	defer e.Release()
	alarms := []string{"NOSPACE"}
	role := health.Role{ID: 1, Leader: 2, Term: 7, Applied: 100, Version: "3.7.3", Alarms: alarms}
	e.Learned(role, t0.Add(2))
	alarms[0] = "changed by the caller"
	role.Alarms = []string{"NOSPACE"}
	assert.Equal(t, role, e.Load().Role)
	assert.Equal(t, t0.Add(2), e.Load().RoleAt)
	assert.Equal(t, health.Unknown, e.Load().State, "a role is no evidence")
	assert.False(t, e.Load().Role.IsLeader())
	assert.True(t, health.Role{ID: 2, Leader: 2}.IsLeader())
	assert.False(t, health.Role{}.IsLeader())

	e.Learned(health.Role{ID: 1, Leader: 3, Term: 9}, t0.Add(1))
	assert.Equal(t, role, e.Load().Role, "what is older than what is known is ignored")
	assert.EqualValues(t, 9, table.Term(), "terms only go up")
	e.Learned(health.Role{ID: 1, Leader: 3, Term: 8}, t0.Add(3))
	assert.EqualValues(t, 3, e.Load().Role.Leader)
	assert.EqualValues(t, 9, table.Term())
}

func TestTableSharesAndForgets(t *testing.T) {
	table := health.NewTable()
	b, a := table.Acquire("b"), table.Acquire("a")
	again := table.Acquire("a")
	assert.Same(t, a, again)
	note(a, health.Answered)
	note(b, health.Refusing)
	all := table.All()
	require.Len(t, all, 2)
	assert.Equal(t, "a", all[0].Endpoint)
	assert.Equal(t, health.Serving, all[0].State)
	assert.Equal(t, "b", all[1].Endpoint)
	assert.Equal(t, health.NotServing, all[1].State)

	a.Release()
	assert.Len(t, table.All(), 2, "somebody uses it")
	again.Release()
	require.Len(t, table.All(), 1)
	again.Release()
	b.Release()
	assert.Empty(t, table.All())

	fresh := table.Acquire("a")
	assert.NotSame(t, a, fresh)
	assert.Equal(t, health.Unknown, fresh.Load().State, "nothing is remembered")
	note(a, health.Missed, health.Missed)
	assert.Equal(t, health.Unknown, table.All()[0].State, "the old entry is nobody's")
}

// An endpoint that was removed and comes back while its old connections still drain is used.
func TestAcquireWhileDraining(t *testing.T) {
	table := health.NewTable()
	old := table.Acquire("a")
	note(old, health.Served, health.Removed)
	fresh := table.Acquire("a")
	assert.NotSame(t, old, fresh)
	assert.Equal(t, health.Unknown, fresh.Load().State)
	assert.Equal(t, health.Draining, old.Load().State)
	assert.Len(t, table.All(), 1)
	old.Release()
	require.Len(t, table.All(), 1, "the old entry's end is not the new one's")
	assert.Same(t, fresh, table.Acquire("a"))
}

func TestSubscribe(t *testing.T) {
	table := health.NewTable()
	a, b := table.Acquire("a"), table.Acquire("b")
	var seen []string
	cancel := table.Subscribe(func(c health.Change) {
		seen = append(seen, fmt.Sprintf("%s %v>%v", c.Endpoint, c.From, c.To))
		assert.Equal(t, c.To, map[string]*health.Entry{"a": a, "b": b}[c.Endpoint].Load().State, "the entry shows it already")
	})
	note(a, health.Answered, health.Answered, health.Silent)
	note(b, health.Leaderless, health.Stalled)
	note(a, health.Served)
	a.Learned(health.Role{Leader: 1}, t0)
	a.Failed(errors.New("failed"), t0)
	assert.Equal(t, []string{"a unknown>serving", "a serving>suspected", "b unknown>no leader", "a suspected>serving"}, seen)

	b.Release()
	note(b, health.Served)
	assert.Len(t, seen, 4, "an entry that nobody uses is nobody's concern")
	cancel()
	note(a, health.Silent)
	assert.Len(t, seen, 4, "cancelled")
	cancel()
}

// A subscriber may act on what it learns. What follows comes after it.
func TestSubscriberNotes(t *testing.T) {
	table := health.NewTable()
	e := table.Acquire("a")
	var first, second []health.State
	defer table.Subscribe(func(c health.Change) {
		first = append(first, c.To)
		if c.To == health.Suspected {
			note(e, health.Leaderless)
			table.Subscribe(func(health.Change) {})()
			assert.Len(t, table.All(), 1)
		}
	})()
	defer table.Subscribe(func(c health.Change) { second = append(second, c.To) })()
	note(e, health.Silent)
	want := []health.State{health.Suspected, health.NoLeader}
	assert.Equal(t, want, first)
	assert.Equal(t, want, second)
}

// Changes of one endpoint, made by many, are told in their order: each begins where the one
// before ended. Readers see whole entries meanwhile.
func TestTableConcurrently(t *testing.T) {
	table := health.NewTable()
	endpoints := []string{"a", "b"}
	at := make(map[string]health.State)
	told := 0
	var inside atomic.Int32
	cancel := table.Subscribe(func(c health.Change) {
		assert.EqualValues(t, 1, inside.Add(1), "called by one at a time")
		assert.Equal(t, at[c.Endpoint], c.From, c.Endpoint)
		assert.NotEqual(t, c.From, c.To)
		at[c.Endpoint] = c.To
		told++
		inside.Add(-1)
	})
	var holders []*health.Entry // so that no entry goes and comes back
	for _, ep := range endpoints {
		holders = append(holders, table.Acquire(ep))
	}

	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, s := range table.All() {
					if s.State != health.Unknown && s.Evidence.Detail != s.Endpoint {
						t.Errorf("%s shows the evidence of %q", s.Endpoint, s.Evidence.Detail)
					}
				}
				table.Improved()
				table.Term()
			}
		})
	}
	changes := atomic.Int64{}
	for i := range 4 {
		writers.Go(func() {
			for n := range 500 {
				ep := endpoints[(n+i)%len(endpoints)]
				e := table.Acquire(ep)
				k := allKinds[(n*7+i)%(len(allKinds)-1)] // all but Removed, which is final
				if c := e.Note(health.Evidence{Kind: k, At: t0, Detail: ep}); c.From != c.To {
					changes.Add(1)
				}
				e.Learned(health.Role{Leader: uint64(n), Term: uint64(n)}, t0)
				e.Release()
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	cancel()
	assert.EqualValues(t, changes.Load(), told, "each change is told once")
	for i, ep := range endpoints {
		assert.Equal(t, at[ep], holders[i].Load().State)
	}
	assert.EqualValues(t, 499, table.Term())
}

// When cancel has returned, no call is under way either.
func TestCancelWaits(t *testing.T) {
	table := health.NewTable()
	e := table.Acquire("a")
	entered, leave := make(chan struct{}), make(chan struct{})
	var done atomic.Bool
	cancel := table.Subscribe(func(health.Change) {
		close(entered)
		<-leave
		done.Store(true)
	})
	var wg sync.WaitGroup
	wg.Go(func() { note(e, health.Served) })
	<-entered
	wg.Go(func() {
		cancel()
		assert.True(t, done.Load())
	})
	close(leave)
	wg.Wait()
}

func TestImproved(t *testing.T) {
	tests := []struct {
		name   string
		before []health.Kind
		change func(e *health.Entry)
		want   bool
	}{
		{"serves", nil, func(e *health.Entry) { note(e, health.Served) }, true},
		{"serves again", []health.Kind{health.Silent}, func(e *health.Entry) { note(e, health.Served) }, true},
		{"serves still", []health.Kind{health.Served}, func(e *health.Entry) { note(e, health.Served) }, false},
		{"connected", nil, func(e *health.Entry) { note(e, health.Connected) }, true},
		{"connected and dead", []health.Kind{health.Missed, health.Missed}, func(e *health.Entry) { note(e, health.Connected) }, false},
		{"dead no more", []health.Kind{health.Missed, health.Missed}, func(e *health.Entry) { note(e, health.Leaderless) }, true},
		{"slow in place of lagging", []health.Kind{health.Stalled}, func(e *health.Entry) { note(e, health.Late) }, true},
		{"suspected", []health.Kind{health.Served}, func(e *health.Entry) { note(e, health.Silent) }, false},
		{"dead", []health.Kind{health.Missed}, func(e *health.Entry) { note(e, health.Missed) }, false},
		{"disconnected", []health.Kind{health.Served}, func(e *health.Entry) { note(e, health.Disconnected) }, false},
		{"failed", nil, func(e *health.Entry) { e.Failed(errors.New("failed"), t0) }, false},
		{"has a leader", nil, func(e *health.Entry) { e.Learned(health.Role{Leader: 1}, t0) }, true},
		{"has none", nil, func(e *health.Entry) { e.Learned(health.Role{ID: 1}, t0) }, false},
		{"has another", nil, func(e *health.Entry) {
			e.Learned(health.Role{Leader: 1}, t0)
			e.Learned(health.Role{Leader: 2}, t0)
		}, true},
		{"a released one serves", nil, func(e *health.Entry) { e.Release(); note(e, health.Served) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := health.NewTable()
			e := table.Acquire("a")
			note(e, tt.before...)
			improved := table.Improved()
			assert.Equal(t, improved, table.Improved(), "one channel until it is closed")
			tt.change(e)
			select {
			case <-improved:
				assert.True(t, tt.want, "it is no improvement")
				assert.NotEqual(t, improved, table.Improved())
			default:
				assert.False(t, tt.want, "nobody was woken")
			}
		})
	}
	t.Run("the same leader again", func(t *testing.T) {
		table := health.NewTable()
		e := table.Acquire("a")
		e.Learned(health.Role{Leader: 1}, t0)
		improved := table.Improved()
		e.Learned(health.Role{Leader: 1}, t0.Add(time.Second))
		select {
		case <-improved:
			t.Error("it is no improvement")
		default:
		}
	})
}

func TestNoAllocations(t *testing.T) {
	table := health.NewTable()
	e := table.Acquire("a")
	note(e, health.Served)
	assert.Zero(t, testing.AllocsPerRun(100, func() { note(e, health.Answered) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { note(e, health.Served) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = e.Load().State }))
	note(e, health.Late)
	assert.Zero(t, testing.AllocsPerRun(100, func() { note(e, health.Answered) }))
}

func BenchmarkNoteAnswered(b *testing.B) {
	e := health.NewTable().Acquire("a")
	note(e, health.Served)
	ev := health.Evidence{Kind: health.Answered, At: t0}
	b.ReportAllocs()
	for b.Loop() {
		e.Note(ev)
	}
}
