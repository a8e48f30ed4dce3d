package lease

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// maxBatch bounds the requests that are taken at once, so that the time at which
// they count as sent is close to when they are.
const maxBatch = 256

// write sends what is due, and has the stream moved when its endpoint is removed.
func (e *Engine) write() {
	var removed <-chan struct{}
	for {
		select {
		case <-e.sendable:
			e.sendDue()
			e.mu.Lock()
			removed = e.link.removed
			e.mu.Unlock()
		case <-removed:
			e.leave(removed)
			removed = nil
		case <-e.ctx.Done():
			return
		}
	}
}

// leave has the stream moved if it is the one whose endpoint was removed, and not
// one that has been opened since.
func (e *Engine) leave(removed <-chan struct{}) {
	e.update(func(now time.Time) {
		if e.link.removed == removed {
			e.machine.Removed(now)
		}
	})
}

// sendDue sends until nothing is due or the stream fails, of which the reader
// learns why.
func (e *Engine) sendDue() {
	for {
		stream, requests := e.take()
		for i := range requests {
			if stream.Send(&requests[i]) != nil {
				return
			}
		}
		if len(requests) < maxBatch {
			return
		}
	}
}

// take makes the next requests, none if the engine has ended. They are made again
// each time, all at once: interceptors may look at a message after it was sent.
func (e *Engine) take() (Stream, []pb.LeaseKeepAliveRequest) {
	var stream Stream
	e.batch = e.batch[:0]
	e.update(func(now time.Time) {
		stream = e.link.stream
		e.batch = e.machine.Take(now, e.batch)
	})
	requests := make([]pb.LeaseKeepAliveRequest, len(e.batch))
	for i, id := range e.batch {
		requests[i].ID = id
	}
	return stream, requests
}
