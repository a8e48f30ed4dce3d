package watch

import (
	"sync"
	"time"
)

// Sink is the caller's end of a watch.
type Sink interface {
	// Offer hands over a response if the caller has room for it, without waiting.
	Offer(Response) bool
	// Put waits for room. It returns false, without having handed it over, when
	// the caller has left, or stop is closed.
	Put(r Response, stop <-chan struct{}) bool
	// Close is called once, after everything else.
	Close()
}

// buffer holds what a caller has yet to take. It has a goroutine only while it
// holds something.
type buffer struct {
	sink   Sink
	budget *Budget

	mu      sync.Mutex
	waiting []waiting
	bytes   int
	room    int // what bytes must fall to, if that is awaited
	awaited bool
	pumping bool      // the goroutine runs; it alone uses the sink then
	offered time.Time // since when the reader may take the next response, zero if none waits
	last    bool      // nothing will follow
	closed  bool      // the sink is
}

type waiting struct {
	Response
	size int
}

// push adds a response. If it has to wait for the caller and nothing did so
// before, start is called, which must run pump.
func (b *buffer) push(r Response, start func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last || !b.pumping && b.sink.Offer(r) {
		return
	}
	size := r.size()
	b.waiting = append(b.waiting, waiting{r, size})
	b.account(size)
	if !b.pumping {
		b.pumping = true
		start()
	}
}

// account changes how many bytes wait. It needs the lock.
func (b *buffer) account(size int) {
	b.bytes += size
	b.budget.use(size)
}

// held is how many bytes wait for the caller.
func (b *buffer) held() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}

// awaitRoom makes pump tell when no more than the given number of bytes wait. It
// returns false if that is so already.
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
	b.closeIdle()
}

// drop ends the buffer. What is waiting is lost: its caller has left.
func (b *buffer) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.discard()
}

// discard needs the lock.
func (b *buffer) discard() {
	b.last = true
	b.waiting = nil
	b.account(-b.bytes)
	b.closeIdle()
}

// closeIdle closes the sink, unless the goroutine will. It needs the lock.
func (b *buffer) closeIdle() {
	if b.last && !b.pumping && !b.closed {
		b.closed = true
		b.sink.Close()
	}
}

// deliver hands over what is waiting until nothing is. It tells how long each
// response waited for the caller, and when there is the room that is awaited.
func (b *buffer) deliver(stop <-chan struct{}, waited func(time.Duration), room func()) {
	for {
		r, ok := b.pop()
		if !ok {
			return
		}
		begun := time.Now()
		if !b.sink.Put(r.Response, stop) {
			b.abandon()
			return
		}
		waited(time.Since(begun))
		if b.delivered(r.size) {
			room()
		}
	}
}

// pop returns the oldest response. Without one it ends the goroutine's time.
func (b *buffer) pop() (waiting, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.waiting = nil
		b.pumping, b.offered = false, time.Time{}
		b.closeIdle()
		return waiting{}, false
	}
	b.offered = time.Now()
	r := b.waiting[0]
	b.waiting[0] = waiting{}
	b.waiting = b.waiting[1:]
	return r, true
}

// delivered takes a response that was handed over off the account. It reports
// whether there is now the room that was awaited.
func (b *buffer) delivered(size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account(-min(size, b.bytes)) // nothing is left of it once the caller has left
	if !b.awaited || b.bytes > b.room {
		return false
	}
	b.awaited = false
	return true
}

// abandon ends the buffer because nobody takes anything any more.
func (b *buffer) abandon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pumping, b.offered = false, time.Time{}
	b.discard()
}
