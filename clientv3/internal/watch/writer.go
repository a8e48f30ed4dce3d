package watch

import (
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	// freshness is how often a stream requests progress on its own, so that a watch
	// of keys without writes can resume after a compaction. etcd's tools and
	// Kubernetes keep five minutes of history or more.
	freshness = time.Minute

	// splitTick is how often a stream requests progress while a watch on it catches
	// up: progress ends a part without events.
	splitTick = 50 * time.Millisecond

	// maxMoveDelay bounds the random time that a stream stays on an endpoint that
	// was removed: streams of many clients move one by one.
	maxMoveDelay = time.Second
)

// write sends the requests of the session on a stream and runs its timers. Removed is closed when
// the stream's endpoint is removed; settled replaces it when the endpoint is final.
func (sh *shard) write(l *link, wake chan struct{}, removed <-chan struct{}, settled <-chan (<-chan struct{})) {
	var leave <-chan time.Time // when the stream leaves a removed endpoint
	pulse := time.NewTimer(sh.progressInterval())
	defer pulse.Stop()
	asked := time.Now()
	for {
		for _, req := range sh.take(wake) {
			if l.stream.Send(req) != nil {
				return // Recv returns the reason to the reader
			}
		}
		select {
		case <-l.ctx.Done():
			return
		case <-wake:
		case removed = <-settled:
		case <-pulse.C:
			asked = time.Now()
			sh.askProgress()
		case <-removed:
			removed = nil
			sh.askProgress()
			leave = time.After(rand.N(maxMoveDelay))
		case <-leave:
			l.cancel(errMove)
			return
		}
		pulse.Reset(time.Until(asked.Add(sh.progressInterval())))
	}
}

// progressInterval varies by 10 %, which spreads the requests of many clients.
func (sh *shard) progressInterval() time.Duration {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case sh.splits > 0:
		return splitTick
	case sh.dedicated:
		return returnInterval
	default:
		return freshness*9/10 + rand.N(freshness/5)
	}
}

// take returns the requests to send on the stream whose writer waits on wake.
func (sh *shard) take(wake chan struct{}) []*pb.WatchRequest {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.wake != wake {
		return nil
	}
	return sh.session.take()
}

// askProgress requests progress, which moves resume points.
func (sh *shard) askProgress() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(sh.session.live) > 0 {
		sh.session.requestProgress(false)
	}
	if sh.splits == 0 {
		return
	}
	for w := range sh.watchers {
		if w.catchup != nil && w.catchup.tick() {
			w.rejoin()
		}
	}
}
