package balancer

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/connectivity"
)

// While no endpoint can be connected to, a ClientConn is of no use, and the backoff of its
// connections, which spares servers that work, only makes that last. So for a while they are
// made anew soon after each failure, also those that failed long ago. A long outage ends by
// the ordinary backoff, whose delays spread the clients of a service over more time.
const (
	// hurriedFor is how long a ClientConn is in a hurry: longer than a member, a host or a
	// link takes to be restarted.
	hurriedFor = 30 * time.Second
	// shortestWait and longestWait bound the random time to the next attempt: two a second
	// for each endpoint, and what comes back is found within 0.7 s, if it refused to be
	// connected to before. An attempt that gets no answer is left to its own time.
	shortestWait, longestWait = 300 * time.Millisecond, 700 * time.Millisecond
	// hurried is how many endpoints are tried so often. More of them share what these have,
	// 20 attempts a second, lest a ClientConn with hundreds become a flood.
	hurried = 10
)

// darken takes in whether there is a connection for calls. It needs the lock.
func (p *policy) darken(state connectivity.State) {
	if state == connectivity.Ready || len(p.endpoints) == 0 {
		p.darkSince = time.Time{}
		return
	}
	if !p.darkSince.IsZero() {
		return
	}
	p.darkSince = time.Now()
	for _, ep := range p.endpoints {
		p.hurry(ep.lines[Calls])
	}
}

// hurry has an attempt to connect for calls that has failed repeated soon, while there is no
// connection. It needs the lock.
func (p *policy) hurry(l *line) {
	if l.state != connectivity.TransientFailure || !p.hurries() {
		return
	}
	sc, wait := l.sc, shortestWait+rand.N(longestWait-shortestWait)
	time.AfterFunc(wait*time.Duration(max(len(p.endpoints), hurried))/hurried, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.closed && l.sc == sc && p.hurries() {
			p.reopen(l)
		}
	})
}

// hurries reports whether there is no connection, and not for long. It needs the lock.
func (p *policy) hurries() bool {
	return !p.darkSince.IsZero() && time.Since(p.darkSince) < hurriedFor
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
