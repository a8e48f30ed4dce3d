package watch

import (
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Sink is the caller's end of a watch.
type Sink interface {
	// Offer delivers a response without waiting. It returns false if the caller has
	// no room.
	Offer(Response) bool
	// Put waits for room. It returns false without delivering if the caller's
	// context has ended or stop is closed.
	Put(r Response, stop <-chan struct{}) bool
	// Close is called once, after everything else.
	Close()
}

// buffer holds responses that the caller has not received yet. It has a goroutine
// only while it is not empty.
type buffer struct {
	sink   Sink
	budget *Budget

	mu      sync.Mutex
	waiting []waiting
	queued  int   // bytes that wait, without the channel's
	slot    int   // bytes of the response last put into the caller's channel
	bytes   int   // the sum of both, 0 if nothing is queued
	room    int   // the level of bytes that is awaited, if any
	offered int64 // when the next response was offered to the reader, in Unix nanoseconds; 0 if none waits
	awaited bool
	pumping bool // the goroutine runs, and only it uses the sink
	last    bool // no response follows
	closed  bool // the sink is closed
}

type waiting struct {
	Response
	size int
}

// push adds a response, and returns how many bytes wait for the caller. If it is the first that
// has to wait, push calls start, which must run deliver.
func (b *buffer) push(r Response, start func()) (held int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last {
		return b.bytes
	}
	if r.Header == nil {
		r.Header = &pb.ResponseHeader{}
	}
	size := r.size()
	if !b.pumping && b.sink.Offer(r) {
		b.slot = size
		return b.bytes
	}
	b.waiting = append(b.waiting, waiting{r, size})
	b.accountLocked(b.queued+size, b.slot)
	if !b.pumping {
		b.pumping = true
		start()
	}
	return b.bytes
}

// accountLocked records how many bytes wait. The response in the channel counts while others wait
// behind it: only then is it certain that the caller has not taken it.
func (b *buffer) accountLocked(queued, slot int) {
	before := b.bytes
	b.queued, b.slot, b.bytes = queued, slot, 0
	if queued > 0 {
		b.bytes = queued + slot
	}
	b.budget.use(b.bytes - before)
}

// held returns how many bytes wait for the caller.
func (b *buffer) held() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}

// atMost returns how many bytes the caller has not taken at most.
func (b *buffer) atMost() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queued + b.slot
}

// awaitRoom makes deliver report when at most the given number of bytes wait. It
// returns false if that is already so.
func (b *buffer) awaitRoom(room int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes <= room {
		return false
	}
	b.room, b.awaited = room, true
	return true
}

// finish ends the buffer after r, which is kept until the caller takes it.
func (b *buffer) finish(r Response, start func()) {
	b.push(r, start)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = true
	b.closeIdleLocked()
}

// drop ends the buffer and discards the waiting responses: the caller has
// cancelled.
func (b *buffer) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = true
	b.waiting = nil
	b.accountLocked(0, 0)
	b.closeIdleLocked()
}

// closeIdleLocked closes the sink, unless the goroutine does it.
func (b *buffer) closeIdleLocked() {
	if b.last && !b.pumping && !b.closed {
		b.closed = true
		b.sink.Close()
	}
}

// deliver sends the waiting responses until the buffer is empty. It calls waited
// with how long each response waited for the caller, and room when the awaited
// level is reached.
func (b *buffer) deliver(stop <-chan struct{}, waited func(time.Duration), room func()) {
	for {
		r, ok := b.pop()
		if !ok {
			return
		}
		begun := time.Now()
		if !b.sink.Put(r.Response, stop) {
			b.drop()
			continue
		}
		waited(time.Since(begun))
		if b.delivered(r.size) {
			room()
		}
	}
}

// pop returns the oldest response. If there is none, the goroutine ends.
func (b *buffer) pop() (waiting, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.waiting = nil
		b.pumping, b.offered = false, 0
		b.closeIdleLocked()
		return waiting{}, false
	}
	b.offered = time.Now().UnixNano()
	r := b.waiting[0]
	b.waiting[0] = waiting{}
	b.waiting = b.waiting[1:]
	return r, true
}

// delivered records that a response is in the caller's channel, in place of the one before.
// It reports whether the awaited level is now reached.
func (b *buffer) delivered(size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accountLocked(max(b.queued-size, 0), size) // nothing is queued if the caller has cancelled
	if !b.awaited || b.bytes > b.room {
		return false
	}
	b.awaited = false
	return true
}

const (
	// share is the fraction (1/share) of the free budget that one watch may hold, so
	// slow watches, however many, leave room for others.
	share = 4

	// floor is the fraction (1/floor) of its own bound that a watch may hold when no
	// budget is free. So a watch whose reader keeps up does not pause for a burst; a
	// pause would make the server read history.
	floor = 1024
)

// Budget bounds what several watches hold together, in bytes. Each exceeds its
// allowance by at most two responses: the one in the caller's channel, and the one with
// which it pauses.
type Budget struct {
	max  int64
	used atomic.Int64
}

// NewBudget returns a budget of max bytes.
func NewBudget(max int) *Budget { return &Budget{max: int64(max)} }

// use adds to the used bytes; a negative number releases bytes.
func (b *Budget) use(bytes int) { b.used.Add(int64(bytes)) }

// allowance returns how many bytes a watch with the given bound may hold at present.
func (b *Budget) allowance(bound int) int { return max(bound/floor, min(bound, b.left()/share)) }

// Used returns how many bytes are held, and the limit.
func (b *Budget) Used() (used, limit int64) { return b.used.Load(), b.max }

func (b *Budget) left() int { return int(max(0, b.max-b.used.Load())) }
