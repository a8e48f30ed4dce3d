package observed

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/observe"
)

// recorder records when an endpoint is ejected and re-admitted.
type recorder struct {
	observe.None
	began               time.Time
	ejected, readmitted []time.Duration
}

func (r *recorder) Ejected(observe.Ejection) { r.ejected = append(r.ejected, time.Since(r.began)) }
func (r *recorder) Readmitted(observe.Readmission) {
	r.readmitted = append(r.readmitted, time.Since(r.began))
}

// A suspicion that lasts is an ejection; one because of many calls is an ejection at once.
func TestLongSuspicionIsAnEjection(t *testing.T) {
	for often, want := range map[bool][]time.Duration{false: {30 * time.Second}, true: {0}} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{began: time.Now()}
			e := Events(r, r, (*balancer.Endpoint).Address, nil).(*events)
			table := health.NewTable()
			suspect, other := table.Acquire("", "a"), table.Acquire("", "b")
			ep, all := balancer.Detached("a", suspect, nil), []*balancer.Endpoint{balancer.Detached("a", suspect, nil), balancer.Detached("b", other, nil)}
			e.siblings = func(*balancer.Endpoint) []*balancer.Endpoint { return all }
			other.Note(health.Evidence{Kind: health.Served, At: time.Now()})
			e.Changed(ep, suspect.Note(health.Evidence{Kind: health.Suspicious, Often: often, At: time.Now()}))
			time.Sleep(time.Minute)
			for range health.GoodToServing {
				if c := suspect.Note(health.Evidence{Kind: health.Served, At: time.Now()}); c.From != c.To {
					e.Changed(ep, c)
				}
			}
			synctest.Wait()
			assert.Equal(t, want, r.ejected)
			assert.Equal(t, []time.Duration{time.Minute}, r.readmitted)
		})
	}
}

// With many endpoints, which are all compared, the changes within a pause are one update.
func TestUpdatesOfManyEndpointsShareAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{began: time.Now()}
		e := Events(r, r, (*balancer.Endpoint).Address, nil).(*events)
		table := health.NewTable()
		refuser, other := table.Acquire("", "a"), table.Acquire("", "b")
		all := slices.Repeat([]*balancer.Endpoint{balancer.Detached("b", other, nil)}, 1000)
		all[500] = balancer.Detached("a", refuser, nil)
		e.siblings = func(*balancer.Endpoint) []*balancer.Endpoint { return all }
		e.Changed(all[0], other.Note(health.Evidence{Kind: health.Served, At: time.Now()}))
		e.Changed(all[500], refuser.Note(health.Evidence{Kind: health.Refusing, At: time.Now()}))
		e.Changed(all[0], health.Change{From: health.Unknown, To: health.Serving})
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []time.Duration{10 * time.Millisecond}, r.ejected)
		refuser.Note(health.Evidence{Kind: health.Removed, At: time.Now()})
		all = all[:500]
		e.Changed(all[0], health.Change{From: health.Unknown, To: health.Serving})
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, e.ejected, "it was removed with its policy, which reports nothing")
	})
}

// blockingObserver blocks on a state, until released.
type blockingObserver struct {
	observe.None
	release chan struct{}
}

func (o *blockingObserver) StateChanged(health.Change) { <-o.release }

// No goroutine waits for an observer that blocks: a bounded number of events waits, in order, and the others are
// counted.
func TestWaitingEventsAreBounded(t *testing.T) {
	for endpoints, limit := range map[int]int{0: maxWaiting, 600: 1200} {
		grpctest.Bubble(t, strconv.Itoa(endpoints), func(t *testing.T) { testBound(t, endpoints, limit) })
	}
}

func testBound(t *testing.T, endpoints, limit int) {
	var received []int
	lost := 0
	o := &blockingObserver{release: make(chan struct{})}
	e := Events(o, o, (*balancer.Endpoint).Address, func(n int) { lost += n }).(*events)
	ep := balancer.Detached("a", nil, nil)
	e.siblings = func(*balancer.Endpoint) []*balancer.Endpoint {
		return slices.Repeat([]*balancer.Endpoint{ep}, endpoints)
	}
	add := func(event func()) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.addLocked(event)
	}
	e.Changed(ep, health.Change{To: health.Serving})
	synctest.Wait()
	for i := range limit + 5 {
		add(func() { received = append(received, i) })
	}
	close(o.release)
	synctest.Wait()
	assert.Len(t, received, limit)
	assert.IsIncreasing(t, received)
	assert.Equal(t, 5, lost)
	add(func() { received = nil })
	synctest.Wait()
	assert.Nil(t, received)
}
