//go:build experiment

package failover_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/observe"
)

// recorder observes a client. Its log is printed if the test fails.
type recorder struct {
	observe.None
	client *clientv3.Client
	began  time.Time
	names  map[string]string // endpoint → name of the member

	mu      sync.Mutex
	log     []string
	visited map[health.State]int
	moved   map[string]bool // members whose state has changed for the client
	picks   map[pick]int
	hedges  int
}

// pick is what a member was picked for, other than hedges.
type pick struct {
	member string
	method string
}

func newRecorder(t *testing.T, c *lab.Cluster) *recorder {
	w := &recorder{
		began: time.Now(), names: map[string]string{}, visited: map[health.State]int{}, moved: map[string]bool{}, picks: map[pick]int{},
	}
	for _, m := range c.Members() {
		w.names[m.Endpoint()] = m.Name()
	}
	t.Cleanup(func() {
		if t.Failed() {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, line := range w.log {
				t.Log(line)
			}
		}
	})
	return w
}

func (w *recorder) noteLocked(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%7.3f ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

func (w *recorder) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(format, args...)
}

func (w *recorder) Picked(p observe.Pick) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.picks[pick{w.names[p.Endpoint], p.Method}]++
}

func (w *recorder) StateChanged(c health.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.visited[c.To]++
	w.moved[w.names[c.Endpoint]] = c.From != health.Unknown || w.moved[w.names[c.Endpoint]]
	w.noteLocked("%s: %v → %v (%v)", w.names[c.Endpoint], c.From, c.To, c.Evidence)
}

// HedgeSent takes a hedge back from the picks, which are counted for calls.
func (w *recorder) HedgeSent(h observe.Hedge) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hedges++
	w.picks[pick{w.names[h.Second], h.Method}]--
}

func (w *recorder) Retried(r observe.Retry) {
	w.say("%s: %s again (%s): %v", w.names[r.Endpoint], r.Method, r.Class, r.Err)
}

func (w *recorder) OutcomeUnknown(u observe.UnknownOutcome) {
	w.say("%s: %s: outcome unknown: %v", w.names[u.Endpoint], u.Method, u.Err)
}

func (w *recorder) WatchResumed(r observe.WatchResumption) {
	w.say("%s: %d watches resumed after %v", w.names[r.Endpoint], r.Watches, r.Gap)
}

func (w *recorder) LeaseLost(l observe.LeaseLoss) { w.say("lease lost: %v", l.Err) }

// picked returns how often each member was picked for a method since the last reset.
func (w *recorder) picked(method string) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := map[string]int{}
	for p, n := range w.picks {
		if p.method == method && n > 0 {
			counts[p.member] = n
		}
	}
	return counts
}

// reset forgets what was picked, hedged and visited.
func (w *recorder) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.picks)
	clear(w.visited)
	clear(w.moved)
	w.hedges = 0
}

// hedged returns how many hedges were sent since the last reset.
func (w *recorder) hedged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hedges
}

// visits returns how often any endpoint came into each state since the last reset.
func (w *recorder) visits() map[health.State]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.visited)
}

// calm reports whether all members are as they should be for the client, and the state of none has changed since
// the last reset.
func (w *recorder) calm(members []*lab.Member) bool {
	for _, m := range members {
		if state := w.status(m).State; state != health.Unknown && state != health.Serving {
			return false
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(members, func(m *lab.Member) bool { return w.moved[m.Name()] })
}

// status returns what the client says of a member.
func (w *recorder) status(m *lab.Member) health.Status {
	for _, s := range w.client.EndpointStatus() {
		if s.Endpoint == m.Endpoint() {
			return s
		}
	}
	return health.Status{}
}

// awaitUse waits until the client holds that the members serve, and sends gets to each. A member that is slow is asked every
// 30 s at least, and on a busy machine may answer late again.
func (w *recorder) awaitUse(t *testing.T, members ...*lab.Member) {
	t.Helper()
	for _, m := range members {
		require.Eventually(t, func() bool { return w.status(m).State == health.Serving }, settling, pollInterval, "%s is not used as one that serves", m.Name())
		before := w.picked(get)[m.Name()]
		require.Eventually(t, func() bool { return w.picked(get)[m.Name()] > before+callers },
			settling, pollInterval, "%s gets no calls", m.Name())
	}
}
