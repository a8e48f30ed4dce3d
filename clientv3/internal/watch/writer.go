package watch

import (
	"context"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	// freshness is how often a stream asks for progress of its own accord, so that
	// a watch of keys which nobody writes can resume after a compaction. etcd's
	// tools and Kubernetes keep five minutes of history or more.
	freshness = time.Minute

	// splitTick is how often a stream asks for progress while a watch on it
	// catches up: a part without events ends with it.
	splitTick = 50 * time.Millisecond

	// maxMoveDelay bounds the random time that a stream stays on an endpoint that
	// was removed: streams of many clients move one by one.
	maxMoveDelay = time.Second
)

// writer sends what a stream's session wants to say, and keeps its times.
type writer struct {
	sh      *shard
	ctx     context.Context
	stream  pb.Watch_WatchClient
	wake    chan struct{}
	settled chan (<-chan struct{})
	removed <-chan struct{}
	leave   <-chan time.Time
	move    func()

	evacuation <-chan time.Time
}

func (wr *writer) run() {
	pulse := time.NewTimer(wr.interval())
	defer pulse.Stop()
	asked := time.Now()
	for {
		for _, req := range wr.sh.take(wr.wake) {
			if wr.stream.Send(req) != nil {
				return // the reader learns why
			}
		}
		select {
		case <-wr.ctx.Done():
			return
		case <-wr.wake:
		case wr.removed = <-wr.settled:
		case <-pulse.C:
			asked = time.Now()
			wr.sh.askProgress()
		case <-wr.removed:
			wr.removed = nil
			wr.sh.askProgress()
			wr.leave = time.After(rand.N(maxMoveDelay))
		case <-wr.leave:
			wr.move()
			return
		case <-wr.sh.superseded:
			wr.evacuation = time.After(rand.N(maxMoveDelay))
		case <-wr.evacuation:
			wr.sh.moveAll()
		}
		pulse.Reset(time.Until(asked.Add(wr.interval())))
	}
}

// interval varies by 10 %, so that clients do not ask in step.
func (wr *writer) interval() time.Duration {
	if wr.sh.splitting() {
		return splitTick
	}
	return freshness*9/10 + rand.N(freshness/5)
}

// take returns what is to be sent on the stream whose writer waits for wake.
func (sh *shard) take(wake chan struct{}) []*pb.WatchRequest {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.wake != wake {
		return nil
	}
	return sh.session.take()
}

// askProgress moves the points where watches resume.
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
