package balancer

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/connectivity"
)

// While no endpoint can be connected to, a ClientConn is of no use, and the backoff of its
// connections, which spares servers that work, only makes that last. So for a while they are
// made anew soon after each failure. A long outage ends by the ordinary backoff, whose
// delays spread the clients of a service over more time.
const (
	// hurriedFor is how long a ClientConn is in a hurry: longer than a member, a host or a
	// link takes to be restarted.
	hurriedFor = 30 * time.Second
	// shortestWait and longestWait bound the random time to the next attempt: two a second
	// for each endpoint, and whatever comes back is found within 0.7 s.
	shortestWait, longestWait = 300 * time.Millisecond, 700 * time.Millisecond
)

// dark takes in that an attempt to connect for calls has failed, and has it repeated soon if
// no endpoint is connected. It needs the lock.
func (p *policy) dark(l *line) {
	for _, ep := range p.endpoints {
		if ep.lines[Calls].state == connectivity.Ready {
			p.darkSince = time.Time{}
			return
		}
	}
	now := time.Now()
	if p.darkSince.IsZero() {
		p.darkSince = now
	}
	if now.Sub(p.darkSince) < hurriedFor {
		sc := l.sc
		time.AfterFunc(shortestWait+rand.N(longestWait-shortestWait), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.closed && l.sc == sc && !p.darkSince.IsZero() {
				p.reopen(l)
			}
		})
	}
}

// reopen has a line that waits for the end of its backoff tried at once. It needs the lock.
func (p *policy) reopen(l *line) {
	if l.state != connectivity.TransientFailure {
		return
	}
	l.sc.Shutdown()
	l.sc, l.state = nil, connectivity.Idle
	p.open(l)
}
