package faults

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/lab/robustness/report"
)

// rewatchPause is how long a reader waits before it watches again when its watch
// has ended by itself, so that a client which ends every watch at once is not
// asked in a tight loop.
const rewatchPause = 100 * time.Millisecond

// reader watches some keys from a revision on, for as long as the load runs. A
// watch that ends by itself is followed by another, from where it stood.
type reader struct {
	of      *run
	request history.WatchRequest // all watches are on its keys
	watches []history.Watch
	next    history.WatchRequest
	pause   time.Duration // before the next watch
	reached atomic.Int64  // the highest revision of an event
}

func newReader(of *run, request history.WatchRequest) *reader {
	request.RequireLeader = of.conn.RequireLeader
	return &reader{of: of, request: request, next: request, pause: rewatchPause}
}

// watched returns the keys that a reader watches: every one, what a caller puts, its counters, or what it writes beside them, in turn.
func watched(prefix string, reader int) history.WatchRequest {
	if kind := reader % (1 + model.Keys); kind > 0 {
		prefix = fmt.Sprintf("%s%s/%d/", prefix, kindsOfKeys[kind-1], reader)
	}
	return history.WatchRequest{Key: prefix, RangeEnd: clientv3.GetPrefixRangeEnd(prefix)}
}

// run watches until ctx ends.
func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		r.watches = append(r.watches, r.watch(ctx))
		_ = pause.For(ctx, r.pause)
	}
}

// watch makes one watch and reads it to its end.
func (r *reader) watch(ctx context.Context) history.Watch {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return client.Read(ctx, r.of.conn.Watcher, r.next, r.of.env.Now, r.advance)
}

// advance moves the revision from which the next watch is to begin. After a
// compaction that is the oldest one left: what is missing is for the checker to
// say.
func (r *reader) advance(resp history.WatchResponse) {
	next := r.next.StartRevision
	for _, e := range resp.Events {
		r.reached.Store(max(r.reached.Load(), e.ModRevision))
		next = e.ModRevision + 1
	}
	r.next.StartRevision = max(r.next.StartRevision, next, resp.CompactRevision)
}

const (
	// outsideEvery is the time between two writes past the links, and outsideTimeout the deadline of one.
	outsideEvery   = 100 * time.Millisecond
	outsideTimeout = time.Second
	// outsidePause is how long their reader waits before it watches again.
	outsidePause = 5 * time.Millisecond
)

// startOutside writes a key past the links all the time, and watches it through the client from a revision on, until the
// function that it returns is called. So a watch has events to deliver even if no client can write. Without a Watcher it does
// nothing.
func (r *run) startOutside(ctx context.Context, revision int64) (end func() error) {
	if r.conn.Watcher == nil {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	key := fmt.Sprintf("/quorate-lab-outside/%016x", r.cfg.Seed)
	watch := newReader(r, history.WatchRequest{Key: key, StartRevision: revision})
	watch.pause = outsidePause
	var work sync.WaitGroup
	work.Go(func() { watch.run(ctx) })
	work.Go(func() { r.writeOutside(ctx, key, r.scene.Cluster.Members()) })
	return func() error {
		cancel()
		work.Wait()
		r.deliveredOutside(watch.watches)
		return nil
	}
}

// writeOutside writes by the members' own connections, and leaves a member that does not answer.
func (r *run) writeOutside(ctx context.Context, key string, members []*lab.Member) {
	for seq, at := 0, 0; pause.For(ctx, outsideEvery) == nil; seq++ {
		r.mu.Lock()
		r.rec.Outside = append(r.rec.Outside, report.OutsideWrite{})
		r.mu.Unlock()
		writing, cancel := context.WithTimeout(ctx, outsideTimeout)
		_, err := pb.NewKVClient(members[at].Conn()).Put(writing, &pb.PutRequest{Key: []byte(key), Value: strconv.AppendInt(nil, int64(seq), 10)})
		cancel()
		if err != nil {
			at = (at + 1) % len(members)
			continue
		}
		r.mu.Lock()
		r.rec.Outside[seq].Acknowledged = r.env.Now()
		r.mu.Unlock()
	}
}

// deliveredOutside records when the writes past the links were delivered. What else came is not from here.
func (r *run) deliveredOutside(watches []history.Watch) {
	for _, w := range watches {
		for _, response := range w.Responses {
			for _, e := range response.Events {
				if seq, err := strconv.Atoi(e.Value); err == nil && seq < len(r.rec.Outside) {
					r.rec.Outside[seq].Delivered = response.At
				}
			}
		}
	}
}
