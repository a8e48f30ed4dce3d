package observed

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
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

// A suspicion that lasts is an event, and one because of many calls at once.
func TestLongSuspicionIsAnEjection(t *testing.T) {
	for often, want := range map[bool][]time.Duration{false: {30 * time.Second}, true: {0}} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{began: time.Now()}
			e := Events(r, r, (*balancer.Endpoint).Address, nil).(*events)
			table := health.NewTable()
			suspect, other := table.Acquire("", "a"), table.Acquire("", "b")
			ep, all := balancer.Detached("a", suspect), []*balancer.Endpoint{balancer.Detached("a", suspect), balancer.Detached("b", other)}
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

// blockingObserver blocks on a state, until released.
type blockingObserver struct {
	observe.None
	release chan struct{}
}

func (o *blockingObserver) StateChanged(health.Change) { <-o.release }

// No goroutine waits for an observer that blocks: a bounded number of events waits, in order, and the others are
// counted.
func TestWaitingEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var received []int
		lost := 0
		o := &blockingObserver{release: make(chan struct{})}
		e := Events(o, o, (*balancer.Endpoint).Address, func(n int) { lost += n }).(*events)
		e.siblings = func(*balancer.Endpoint) []*balancer.Endpoint { return nil }
		add := func(event func()) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.addLocked(event)
		}
		e.Changed(balancer.Detached("a", health.NewTable().Acquire("", "a")), health.Change{To: health.Serving})
		synctest.Wait()
		for i := range maxWaiting + 5 {
			add(func() { received = append(received, i) })
		}
		close(o.release)
		synctest.Wait()
		assert.Len(t, received, maxWaiting)
		assert.IsIncreasing(t, received)
		assert.Equal(t, 5, lost)
		add(func() { received = nil })
		synctest.Wait()
		assert.Nil(t, received)
	})
}
