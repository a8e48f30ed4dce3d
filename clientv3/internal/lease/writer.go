package lease

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// maxBatch bounds the requests taken at once, so that their recorded send time is
// close to the real one.
const maxBatch = 256

// write sends due requests, and moves the stream when its endpoint is removed.
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

// leave moves the stream, if it is the one whose endpoint was removed and not a
// later one.
func (e *Engine) leave(removed <-chan struct{}) {
	e.update(func(now time.Time) {
		if e.link.removed == removed {
			e.machine.Removed(now)
		}
	})
}

// sendDue sends until no request is due or the stream fails. The reader gets the
// reason of a failure.
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

// take returns the next requests, none if the engine has ended.
func (e *Engine) take() (stream pb.Lease_LeaseKeepAliveClient, requests []pb.LeaseKeepAliveRequest) {
	e.update(func(now time.Time) {
		stream, requests = e.link.stream, e.machine.Take(now, maxBatch)
	})
	return stream, requests
}
