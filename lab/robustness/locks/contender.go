package locks

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

const (
	// callTimeout bounds a call of a holder, so that a fault does not keep the lock
	// for ever, and sessionTimeout the grant of a lease.
	callTimeout, sessionTimeout = 3 * time.Second, 5 * time.Second
	// delayedTimeout bounds a write that is on its way during a pause: it outlasts
	// the pause.
	delayedTimeout = longestPause + callTimeout
	// longestBreak bounds the time between two rounds.
	longestBreak = 100 * time.Millisecond
)

// contender is one program that takes locks, round after round.
type contender struct {
	index    int
	cfg      Config
	env      *robustness.Env
	locks    []lockcheck.LockKeys
	rng      *rand.Rand
	gate     gateway
	client   client.Locker
	session  client.Session // nil if there is none
	end      context.CancelFunc
	values   int
	attempts []*lockcheck.Attempt
}

// connect opens the contender's way to the members and connects its client. An error ends it, see package fatal.
func (c *contender) connect(endpoints []string) {
	for _, endpoint := range endpoints {
		l := fatal.OK(link.Listen(strings.TrimPrefix(endpoint, "http://")))
		c.env.Cleanup(l.Close)
		c.gate = append(c.gate, l)
	}
	c.client = fatal.OK(c.cfg.connect(c.gate.endpoints()))
	c.env.Cleanup(func() error {
		c.drop()
		return c.client.Close()
	})
}

// contend takes locks until ctx ends. A lock that is held then is given up as planned.
func (c *contender) contend(ctx context.Context) {
	for pause.For(ctx, pace.Between(c.rng, 0, longestBreak)) == nil {
		if c.ensureSession() {
			c.round(ctx, newPlan(c.rng, len(c.locks)))
		}
	}
}

// once tries to take a lock one last time, until it succeeds or ctx ends. It ends
// the session in any case; a lease that is not revoked expires.
func (c *contender) once(ctx context.Context) {
	lock := c.index % len(c.locks)
	p := plan{lock: lock, style: style(lock), waitTimeout: c.cfg.settleTimeout, gaps: make([]time.Duration, 1)}
	for taken := false; !taken && pause.For(ctx, pace.Between(c.rng, 0, longestBreak)) == nil; {
		if c.ensureSession() {
			taken = c.round(ctx, p)
			_ = c.session.Close()
		}
	}
}

// ensureSession makes a session unless there is one that lives as far as the client
// knows.
func (c *contender) ensureSession() bool {
	if c.session != nil {
		select {
		case <-c.session.Done():
			c.drop()
		default:
			return true
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(sessionTimeout, cancel)
	s, err := c.client.Session(ctx, sessionTTL)
	inTime := timer.Stop()
	if err != nil || !inTime {
		cancel()
		c.env.Counts.Add("sessions", "not granted", 1)
		return false
	}
	c.session, c.end = s, cancel
	c.env.Counts.Add("sessions", "granted", 1)
	return true
}

// drop forgets the session, if there is one, and ends what may be left of it.
func (c *contender) drop() {
	if c.session != nil {
		c.end()
		c.session, c.end = nil, nil
	}
}

// round carries out a plan, and reports whether the lock was taken.
func (c *contender) round(ctx context.Context, p plan) (ok bool) {
	h := &holding{contender: c, plan: p}
	var background sync.WaitGroup
	defer background.Wait()
	waiting, taken := context.WithCancel(ctx)
	if p.incident == pausedWaiting {
		background.Go(func() { h.pauseWaiting(ctx, waiting) })
	}
	ok = h.take(ctx)
	taken()
	if ok {
		h.hold(ctx)
		h.giveUp()
	}
	return ok
}

// gateway is a contender's own way to the members: a link to each of them. While it
// is paused the contender is like a program that is stopped, or whose host sleeps:
// no renewal leaves it, no event reaches it, and it does not notice.
type gateway []*link.Link

// endpoints returns the URLs of the contender's side.
func (g gateway) endpoints() []string {
	out := make([]string, len(g))
	for i, l := range g {
		out[i] = "http://" + l.Addr()
	}
	return out
}

// pause withholds everything from now on.
func (g gateway) pause() {
	for _, l := range g {
		l.Blackhole(link.Both)
	}
}

// resume delivers what was withheld or, if the connections are lost, drops it with
// them, and carries again.
func (g gateway) resume(lost bool) {
	for _, l := range g {
		if lost {
			l.Cut()
		}
		l.Heal()
	}
}
