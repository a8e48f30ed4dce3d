package link

import (
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
)

// maxQueued is how many bytes one direction of one connection may hold back: what a
// sender can have under way on a path of 1 GB/s and 16 ms, and more than Linux lets
// a send buffer grow to by default (4 MiB).
const maxQueued = 16 << 20

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
	mu     sync.Mutex
	chunks []chunk
	bytes  int
	ended  bool

	filled  chan struct{} // holds a token when chunks may have been added
	drained chan struct{} // holds a token when bytes may have gone down
}

func newQueue() *queue {
	return &queue{filled: make(chan struct{}, 1), drained: make(chan struct{}, 1)}
}

// push adds data, which the queue then owns, when there is room for it. It returns
// false when done closes first.
func (q *queue) push(done <-chan struct{}, data []byte) bool {
	arrived := time.Now()
	for !q.tryPush(chunk{data: data, arrived: arrived}) {
		select {
		case <-q.drained:
		case <-done:
			return false
		}
	}
	return true
}

func (q *queue) tryPush(c chunk) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes > 0 && q.bytes+len(c.data) > maxQueued {
		return false
	}
	q.bytes += len(c.data)
	q.chunks = append(q.chunks, c)
	pause.Signal(q.filled)
	return true
}

// length returns how many chunks wait.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.chunks)
}

// finish adds the end of the connection. Only the first end counts.
func (q *queue) finish(end ending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	q.ended = true
	q.chunks = append(q.chunks, chunk{arrived: time.Now(), end: end})
	pause.Signal(q.filled)
}

// pop removes the oldest chunk, waiting for one. It returns false when done closes
// first.
func (q *queue) pop(done <-chan struct{}) (chunk, bool) {
	for {
		if c, ok := q.tryPop(); ok {
			return c, true
		}
		select {
		case <-q.filled:
		case <-done:
			return chunk{}, false
		}
	}
}

func (q *queue) tryPop() (chunk, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.chunks) == 0 {
		return chunk{}, false
	}
	c := q.chunks[0]
	q.chunks[0] = chunk{}
	q.chunks = q.chunks[1:]
	q.bytes -= len(c.data)
	pause.Signal(q.drained)
	return c, true
}
