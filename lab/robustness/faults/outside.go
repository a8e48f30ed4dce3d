package faults

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/report"
)

const (
	// outsideEvery is the time between two writes past the links, and outsideTimeout the deadline of one.
	outsideEvery   = 100 * time.Millisecond
	outsideTimeout = time.Second
	// outsidePause is the time before the watch of these writes is opened again.
	outsidePause = 5 * time.Millisecond
)

// writeOutside writes a key past the links, so that a watch of the client has events to deliver even if no client can
// write, and watches it from a revision on. Both end with the function that it returns, or with ctx.
func (r *run) writeOutside(ctx context.Context, revision int64) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	if r.conn.Watcher != nil {
		key := fmt.Sprintf("/quorate-lab-outside/%016x", r.cfg.Seed)
		work.Go(func() { r.putOutside(ctx, key, r.scene.Cluster.Members()) })
		work.Go(func() { r.watchOutside(ctx, history.WatchRequest{Key: key, StartRevision: revision}) })
	}
	return func() {
		cancel()
		work.Wait()
	}
}

// putOutside puts numbers by the members' own connections until ctx ends, and leaves a member that does not answer.
func (r *run) putOutside(ctx context.Context, key string, members []*lab.Member) {
	for seq, at := 0, 0; pause.For(ctx, outsideEvery) == nil; seq++ {
		r.mu.Lock()
		r.rec.Outside = append(r.rec.Outside, report.OutsideWrite{})
		r.mu.Unlock()
		putting, cancel := context.WithTimeout(ctx, outsideTimeout)
		_, err := pb.NewKVClient(members[at].Conn()).Put(putting, &pb.PutRequest{Key: []byte(key), Value: strconv.AppendInt(nil, int64(seq), 10)})
		cancel()
		if err != nil {
			at = (at + 1) % len(members)
			continue
		}
		r.changeOutside(seq, func(w *report.OutsideWrite, now time.Duration) { w.Acknowledged = now })
	}
}

// watchOutside records what is delivered until ctx ends. A watch that ends by itself is followed by another, from where it
// stood.
func (r *run) watchOutside(ctx context.Context, req history.WatchRequest) {
	for ctx.Err() == nil {
		watching, cancel := context.WithCancel(ctx)
		for resp := range r.conn.Watcher.Watch(watching, req) {
			for _, e := range resp.Events {
				if seq, err := strconv.Atoi(e.Value); err == nil {
					r.changeOutside(seq, func(w *report.OutsideWrite, now time.Duration) { w.Delivered = now })
				}
				req.StartRevision = e.ModRevision + 1
			}
			req.StartRevision = max(req.StartRevision, resp.CompactRevision)
		}
		cancel()
		_ = pause.For(ctx, outsidePause)
	}
}

// changeOutside changes the record of a write past the links.
func (r *run) changeOutside(seq int, change func(w *report.OutsideWrite, now time.Duration)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq < len(r.rec.Outside) { // what else the watch delivers is not from here
		change(&r.rec.Outside[seq], r.env.Now())
	}
}
