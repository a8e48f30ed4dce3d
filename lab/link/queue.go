package link

import (
	"sync"
	"time"
)

// maxQueued is how many chunks one direction of one connection may hold back. With
// whole chunks that is 16 MiB: what a sender can have under way on a path of 1 GB/s
// and 16 ms, and more than Linux lets a send buffer grow to by default (4 MiB).
const maxQueued = 512

// ending is how a connection ended on the side that was read.
type ending uint8

const (
	lasting  ending = iota // it did not
	finished               // the peer sent FIN: nothing more will come from it
	broken                 // the peer sent RST, or is gone
)

// chunk is a run of bytes and the time of its arrival at the link, or the end of
// the connection.
type chunk struct {
	data    []byte
	arrived time.Time
	end     ending
}

// queue holds the chunks between the reader and the writer of one direction of a
// connection.
type queue struct {
	chunks chan chunk
	once   sync.Once
	ended  chan struct{} // closed when last is set
	last   chunk
}

func newQueue() *queue {
	return &queue{chunks: make(chan chunk, maxQueued), ended: make(chan struct{})}
}

// push adds data, which the queue then owns, when there is room for it. It returns
// false when done closes first.
func (q *queue) push(done <-chan struct{}, data []byte) bool {
	select {
	case q.chunks <- chunk{data: data, arrived: time.Now()}:
		return true
	case <-done:
		return false
	}
}

// finish adds the end of the connection. Only the first end counts.
func (q *queue) finish(end ending) {
	q.once.Do(func() {
		q.last = chunk{arrived: time.Now(), end: end}
		close(q.ended)
	})
}

// pop removes the oldest chunk, waiting for one. After all chunks it returns the end.
// It returns false when done closes first.
func (q *queue) pop(done <-chan struct{}) (chunk, bool) {
	select {
	case c := <-q.chunks:
		return c, true
	case <-done:
		return chunk{}, false
	case <-q.ended:
	}
	select {
	case c := <-q.chunks:
		return c, true
	default:
		return q.last, true
	}
}
