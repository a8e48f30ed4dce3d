package link

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Direction names the way that bytes travel over a link. Values combine with |.
type Direction uint8

const (
	// Forward is from the side that dialled to the target.
	Forward Direction = 1 << iota
	// Reverse is from the target to the side that dialled.
	Reverse
	// Both is Forward and Reverse.
	Both = Forward | Reverse
)

// Condition is what a link does to the bytes of one direction. The zero value is a
// link without faults.
type Condition struct {
	// Blackholed accepts bytes and delivers none. What was accepted is kept, in
	// order, and delivered when the direction opens again, which is what TCP's
	// retransmissions do after a partition. Ends of connections (FIN and RST) are
	// bytes in this respect: the other side does not learn of them. After 512 reads
	// per connection, of up to 32 KiB, no more bytes are accepted and the sender
	// stalls, as it does on a full send buffer.
	//
	// The sender's kernel is acknowledged by the link, not by the target. Evidence
	// that rests on missing acknowledgements (TCP keepalive, TCP_USER_TIMEOUT)
	// therefore never appears.
	Blackholed bool
	// Delay is added to the latency of every byte. It does not limit throughput, up
	// to the 512 reads per connection that may be under way at a time. Connecting
	// itself is not delayed. Zero or less is none.
	Delay time.Duration
	// Loss is the share of segments that are lost, from 0 to less than 1. A lost segment, and all
	// behind it on its connection, arrive with its retransmission: that is sent after 200 ms, and is
	// lost with the same probability; each further one follows after twice the time. What is read
	// from a socket at once counts as one segment.
	Loss float64
}

// Stats are counts since the link was made.
type Stats struct {
	// Accepted is the number of connections that were accepted, ended ones included.
	Accepted uint64
	// Refused is the number of connections that were reset without reaching the
	// target: the link was cut, or the target did not listen.
	Refused uint64
	// Active is the number of connections now.
	Active int
}

// retransmitAfter is TCP's least retransmission timeout on Linux.
const retransmitAfter = 200 * time.Millisecond

// path is one direction of a link, shared by its connections.
type path struct {
	mu        sync.Mutex
	condition Condition
	changed   chan struct{} // closed and replaced when condition changes
}

func newPath() *path { return &path{changed: make(chan struct{})} }

func (p *path) update(change func(*Condition)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.condition)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *path) get() Condition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.condition
}

// arrival returns when a segment that is sent now reaches the other end, as far as losses decide.
func (p *path) arrival() time.Time {
	at, loss := time.Now(), p.get().Loss
	for timeout := retransmitAfter; rand.Float64() < loss; timeout *= 2 {
		at = at.Add(timeout)
	}
	return at
}

// await blocks until what arrived at the given time may be delivered: a chunk, or the beginning or the end of a connection.
// It returns false when done closes first.
func (p *path) await(done <-chan struct{}, arrived time.Time) bool {
	for {
		p.mu.Lock()
		c, changed := p.condition, p.changed
		p.mu.Unlock()
		var due <-chan time.Time // never while it is blackholed
		if !c.Blackholed {
			wait := time.Until(arrived.Add(c.Delay))
			if wait <= 0 {
				return true
			}
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-changed:
		case <-done:
			return false
		}
	}
}
