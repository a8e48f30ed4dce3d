package health_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/pause"
)

func note(e *health.Entry, kinds ...health.Kind) health.Change {
	var c health.Change
	for _, k := range kinds {
		c = e.Note(health.Evidence{Kind: k, At: t0})
	}
	return c
}

// entry returns one that is in no other test's table.
func entry() *health.Entry { return health.NewTable().Acquire("", "a:1") }

func TestEntryShowsTheStateAndItsEvidence(t *testing.T) {
	e := entry()
	assert.Equal(t, &health.Status{Endpoint: "a:1"}, e.Load())

	served := health.Evidence{Kind: health.Served, At: t0.Add(1)}
	assert.Equal(t, health.Change{Endpoint: "a:1", To: health.Serving, Evidence: served}, e.Note(served))
	before := e.Load()
	assert.Equal(t, &health.Status{Endpoint: "a:1", State: health.Serving, Since: t0.Add(1), Evidence: served}, before)

	answered := health.Evidence{Kind: health.Answered, At: t0.Add(2)}
	assert.Equal(t, health.Change{Endpoint: "a:1", From: health.Serving, To: health.Serving, Evidence: answered}, e.Note(answered))
	suspicious := health.Evidence{Kind: health.Suspicious, At: t0.Add(3), Detail: "no answer to Range for 310ms"}
	assert.Equal(t, health.Change{Endpoint: "a:1", From: health.Serving, To: health.Suspected, Evidence: suspicious}, e.Note(suspicious))
	again := health.Evidence{Kind: health.Suspicious, At: t0.Add(4)}
	assert.Equal(t, health.Change{Endpoint: "a:1", From: health.Suspected, To: health.Suspected, Evidence: again}, e.Note(again))
	assert.Equal(t, suspicious, e.Load().Evidence, "what led to the state")
	assert.Equal(t, t0.Add(3), e.Load().Since)

	assert.Equal(t, &health.Status{Endpoint: "a:1", State: health.Serving, Since: t0.Add(1), Evidence: served}, before,
		"what was loaded never changes")
}

func TestEntryKeepsTheLatestError(t *testing.T) {
	e := entry()
	note(e, health.Served)
	late, refused := errors.New("late"), errors.New("refused")
	e.Note(health.Evidence{Kind: health.Answered, At: t0.Add(3), Err: late})
	assert.Equal(t, late, e.Load().LastErr)
	assert.Equal(t, t0.Add(3), e.Load().LastErrAt)
	assert.Equal(t, health.Serving, e.Load().State)

	e.Failed(refused, t0.Add(4))
	e.Failed(nil, t0.Add(5))
	assert.Equal(t, refused, e.Load().LastErr)
	assert.Equal(t, t0.Add(4), e.Load().LastErrAt)
	assert.Equal(t, health.Serving, e.Load().State, "a failure is no evidence")

	note(e, health.Suspicious, health.Served)
	assert.Equal(t, refused, e.Load().LastErr, "it stays when the endpoint recovers")
}

func TestEntryCountsWhatASlowEndpointServes(t *testing.T) {
	e := entry()
	note(e, health.Late)
	assert.Equal(t, health.Slow, note(e, health.Served, health.Served).To)
	assert.Equal(t, health.Serving, note(e, health.Served).To)
}

func TestInfoIsTheLatestReport(t *testing.T) {
	e := entry()
	e.SetInfo("leader", t0.Add(2))
	assert.Equal(t, "leader", e.Load().Info)
	assert.Equal(t, t0.Add(2), e.Load().InfoAt)
	assert.Equal(t, health.Unknown, e.Load().State, "it is no evidence")

	e.SetInfo("follower", t0.Add(1))
	assert.Equal(t, "leader", e.Load().Info, "the report is older than what is known")
	e.SetInfo("follower", t0.Add(2))
	assert.Equal(t, "follower", e.Load().Info)
	note(e, health.Served)
	assert.Equal(t, "follower", e.Load().Info, "evidence leaves it alone")
}

func TestSubscribersGetEveryChangeInOrder(t *testing.T) {
	table := health.NewTable()
	a, b := table.Acquire("", "a"), table.Acquire("", "b")
	var seen []string
	cancel := a.Subscribe(func(c health.Change) {
		seen = append(seen, fmt.Sprintf("%s %v>%v", c.Endpoint, c.From, c.To))
		assert.Equal(t, c.To, a.Load().State, "the entry shows it already")
	})
	note(a, health.Answered, health.Answered, health.Suspicious)
	note(b, health.Degrading, health.Served)
	note(a, health.Served)
	a.SetInfo("leader", t0)
	a.Failed(errors.New("failed"), t0)
	a.Note(health.Evidence{Kind: health.Answered, At: t0, Err: errors.New("failed")})
	assert.Equal(t, []string{"a unknown>serving", "a serving>suspected", "a suspected>serving"}, seen)

	cancel()
	note(a, health.Suspicious)
	assert.Len(t, seen, 3, "it is canceled")
	cancel()
}

func TestCancelEndsOneSubscriptionOnly(t *testing.T) {
	e := entry()
	var first, second, third int
	e.Subscribe(func(health.Change) { first++ })
	cancel := e.Subscribe(func(health.Change) { second++ })
	e.Subscribe(func(health.Change) { third++ })
	cancel()
	note(e, health.Served)
	assert.Equal(t, []int{1, 0, 1}, []int{first, second, third})
}

// A subscriber may note evidence. The others see the change that it learnt of before the
// one that it made.
func TestSubscriberMayNoteEvidence(t *testing.T) {
	table := health.NewTable()
	e := table.Acquire("", "a")
	var first, second []health.State
	returned := false
	e.Subscribe(func(c health.Change) {
		first = append(first, c.To)
		if c.To != health.Suspected {
			assert.True(t, returned, "f has returned before it learns of what it did")
			return
		}
		note(e, health.Degrading)
		e.Subscribe(func(health.Change) {})()
		assert.Len(t, table.All(), 1, "it may use the table")
		assert.Len(t, first, 1)
		returned = true
	})
	e.Subscribe(func(c health.Change) { second = append(second, c.To) })
	assert.Equal(t, health.Suspected, note(e, health.Suspicious).To)
	want := []health.State{health.Suspected, health.Degraded}
	assert.Equal(t, want, first)
	assert.Equal(t, want, second)
}

func TestSubscriberMayCancelItself(t *testing.T) {
	e := entry()
	calls := 0
	var cancel func()
	cancel = e.Subscribe(func(health.Change) {
		calls++
		note(e, health.Suspicious)
		cancel()
	})
	note(e, health.Served)
	assert.Equal(t, 1, calls)
	assert.Equal(t, health.Suspected, e.Load().State)
}

func TestSubscriberMayCancelAnother(t *testing.T) {
	e := entry()
	var cancel func()
	e.Subscribe(func(health.Change) { cancel() })
	calls := 0
	cancel = e.Subscribe(func(health.Change) { calls++ })
	note(e, health.Served)
	assert.Zero(t, calls, "not even for the change that is being delivered")
}

func TestCancelDoesNotWaitForACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := entry()
		entered, leave := make(chan struct{}), make(chan struct{})
		calls := 0
		cancel := e.Subscribe(func(health.Change) {
			calls++
			close(entered)
			<-leave
		})
		var others []health.State
		e.Subscribe(func(c health.Change) { others = append(others, c.To) })
		go note(e, health.Served)
		<-entered
		cancel()
		note(e, health.Suspicious)
		assert.Empty(t, others, "one goroutine at a time calls")
		close(leave)
		synctest.Wait()
		assert.Equal(t, 1, calls, "no call begins after cancel")
		assert.Equal(t, []health.State{health.Serving, health.Suspected}, others, "the goroutine that was calling goes on")
	})
}

// Changes made by many are delivered in order: each begins where the one before ended.
// Readers see whole entries meanwhile.
func TestChangesOfManyAreDeliveredInOrder(t *testing.T) {
	table := health.NewTable()
	type received struct {
		at    health.State
		calls int64
	}
	endpoints := []string{"a", "b"}
	var holders []*health.Entry // so that no entry goes and comes back
	all := make([]received, len(endpoints))
	for i, ep := range endpoints {
		holders = append(holders, table.Acquire("", ep))
		var inside atomic.Int32
		holders[i].Subscribe(func(c health.Change) {
			assert.EqualValues(t, 1, inside.Add(1), "called by one at a time")
			assert.Equal(t, all[i].at, c.From, c.Endpoint)
			assert.NotEqual(t, c.From, c.To)
			all[i].at = c.To
			all[i].calls++
			inside.Add(-1)
		})
	}

	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !pause.Closed(stop) {
				for _, s := range table.All() {
					if s.State != health.Unknown && s.Evidence.Detail != s.Endpoint {
						t.Errorf("%s shows the evidence of %q", s.Endpoint, s.Evidence.Detail)
					}
				}
			}
		})
	}
	changes := atomic.Int64{}
	for w := range 4 {
		writers.Go(func() {
			for n := range 500 {
				ep := endpoints[(n+w)%len(endpoints)]
				e := table.Acquire("", ep)
				k := allKinds[(n*7+w)%(len(allKinds)-1)] // all but Removed, which is final
				if c := e.Note(health.Evidence{Kind: k, At: t0, Detail: ep}); c.From != c.To {
					changes.Add(1)
				}
				e.SetInfo(n, t0)
				e.Release()
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	assert.Equal(t, changes.Load(), all[0].calls+all[1].calls, "each change is delivered once")
	for i := range endpoints {
		assert.Equal(t, all[i].at, holders[i].Load().State)
	}
}

func TestSignsOfLifeOfManyUsersCountForAll(t *testing.T) {
	table := health.NewTable()
	mine, yours := table.Acquire("", "a"), table.Acquire("", "a")
	assert.False(t, mine.AliveSince(time.Time{}))
	assert.Equal(t, time.Duration(math.MaxInt64), mine.Silence(t0))

	yours.Alive(t0)
	assert.True(t, mine.AliveSince(t0))
	assert.False(t, mine.AliveSince(t0.Add(1)))
	assert.Equal(t, time.Second, mine.Silence(t0.Add(time.Second)))
	assert.False(t, mine.CompletedSince(time.Time{}), "to be alive is not to serve")

	mine.AddConnections(2)
	yours.AddConnections(1)
	mine.AddConnections(-1)
	assert.Equal(t, 2, yours.Connections())
}

// An answer to what was asked before the endpoint hung proves nothing of what comes after.
func TestCompletedSinceCountsByTheBeginOfTheWork(t *testing.T) {
	e := entry()
	e.Completed(t0, t0.Add(10*time.Second))
	assert.True(t, e.CompletedSince(t0))
	assert.False(t, e.CompletedSince(t0.Add(time.Second)), "it began before")
	assert.True(t, e.AliveSince(t0.Add(10*time.Second)), "its end is a sign of life")
	assert.False(t, e.AliveSince(t0.Add(10*time.Second+1)))

	e.Completed(t0.Add(-time.Second), t0.Add(11*time.Second))
	assert.True(t, e.CompletedSince(t0), "what began earlier takes nothing back")
	assert.True(t, e.AliveSince(t0.Add(11*time.Second)))
}

func TestLatencyOfAnEntryIsSmoothed(t *testing.T) {
	e := entry()
	assert.Zero(t, e.Latency(), "it served nothing yet")
	assert.Zero(t, e.Latest())
	complete := func(n int, took time.Duration) {
		for range n {
			e.Completed(t0, t0.Add(took))
		}
	}
	complete(1, 10*time.Millisecond)
	assert.Equal(t, 10*time.Millisecond, e.Latency(), "the first sample is all that is known")
	complete(1, 110*time.Millisecond)
	assert.Equal(t, 20*time.Millisecond, e.Latency(), "a tenth of the difference")
	assert.Equal(t, 110*time.Millisecond, e.Latest())
	complete(100, 110*time.Millisecond)
	assert.InDelta(t, 110*time.Millisecond, e.Latency(), float64(time.Millisecond))
	complete(100, 0)
	assert.Positive(t, e.Latency(), "0 is for an endpoint that served nothing")
	assert.Less(t, e.Latency(), time.Millisecond)
}

func TestOneUserProbesForAll(t *testing.T) {
	table := health.NewTable()
	mine, yours := table.Acquire("", "a"), table.Acquire("", "a")
	assert.True(t, mine.StartProbing())
	assert.False(t, yours.StartProbing())
	assert.False(t, mine.StartProbing())
	mine.StopProbing()
	assert.True(t, yours.StartProbing())

	yours.StopProbing()
	var probing atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				if mine.StartProbing() {
					if probing.Add(1) != 1 {
						t.Error("two probe at once")
					}
					probing.Add(-1)
					mine.StopProbing()
				}
			}
		})
	}
	wg.Wait()
}

func TestEvidenceThatChangesNothingDoesNotAllocate(t *testing.T) {
	e := entry()
	e.Subscribe(func(health.Change) {})
	note(e, health.Served)
	now := time.Now()
	for name, f := range map[string]func(){
		"answered":  func() { note(e, health.Answered) },
		"served":    func() { note(e, health.Served) },
		"load":      func() { _ = e.Load().State },
		"alive":     func() { e.Alive(now); e.AliveSince(now); e.Silence(now) },
		"completed": func() { e.Completed(now, now.Add(1)); e.CompletedSince(now); e.Latency() },
		"probing":   func() { e.StartProbing(); e.StopProbing() },
	} {
		assert.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	note(e, health.Late)
	assert.Zero(t, testing.AllocsPerRun(100, func() { note(e, health.Answered) }), "answered by a slow endpoint")
}

func TestUsersOfOneKeyShareAnEntry(t *testing.T) {
	table := health.NewTable()
	plain, secure := table.Acquire("", "a:1"), table.Acquire("a:1 with TLS", "a:1")
	assert.NotSame(t, plain, secure, "each key has its own entry")
	assert.Same(t, secure, table.Acquire("a:1 with TLS", "a:1"))
	assert.Same(t, plain, table.Acquire("a:1", "a:1"), "without a key the name is the key")
	assert.Same(t, plain, table.Acquire("a:1", "another name"), "the first user names the endpoint")

	note(secure, health.Served)
	assert.Equal(t, health.Unknown, plain.Load().State)
	assert.Equal(t, "a:1", plain.Load().Endpoint)
	assert.Equal(t, "a:1", secure.Load().Endpoint)
}

func TestAllIsSortedByEndpoint(t *testing.T) {
	table := health.NewTable()
	assert.Empty(t, table.All())
	for _, endpoint := range []string{"c", "a", "b"} {
		table.Acquire("key of "+endpoint, endpoint)
	}
	note(table.Acquire("key of b", "b"), health.Refusing)
	all := table.All()
	require.Len(t, all, 3)
	for i, want := range []health.Status{{Endpoint: "a"}, {Endpoint: "b", State: health.NotServing}, {Endpoint: "c"}} {
		assert.Equal(t, want.Endpoint, all[i].Endpoint)
		assert.Equal(t, want.State, all[i].State)
	}
}

func TestLastReleaseForgetsTheEntry(t *testing.T) {
	table := health.NewTable()
	b, a := table.Acquire("", "b"), table.Acquire("", "a")
	again := table.Acquire("", "a")
	note(a, health.Served)
	a.Release()
	assert.Len(t, table.All(), 2, "it has another user")
	again.Release()
	require.Len(t, table.All(), 1)
	assert.Equal(t, "b", table.All()[0].Endpoint)

	fresh := table.Acquire("", "a")
	assert.NotSame(t, a, fresh)
	assert.Equal(t, health.Unknown, fresh.Load().State, "nothing is remembered")
	again.Release()
	assert.Len(t, table.All(), 2, "one Release too many of the old entry is none of the new one")
	note(a, health.Unresponsive)
	assert.Equal(t, health.Unknown, table.All()[0].State, "the old entry is in no table")

	b.Release()
	fresh.Release()
	assert.Empty(t, table.All())
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
