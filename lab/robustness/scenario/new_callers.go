package scenario

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/measure"
)

// newCallerPause is how long a new caller waits before it tries again, and the watch of
// what new callers put before it is opened again.
const newCallerPause = 5 * time.Millisecond

const (
	// outsideKey follows the prefix in the key that is written past the links.
	outsideKey = "outside"
	// outsideEvery is the time between two such writes, and outsideTimeout the deadline of one.
	outsideEvery   = 100 * time.Millisecond
	outsideTimeout = time.Second
)

// newCallers are callers that begin when a new leader is reported. The callers of the load
// may be waiting then for the end of calls that went to the old one, which says nothing
// about the calls that a program makes from now on. What new callers put is apart from
// what the load writes, and is not checked. One key is written past the links all the
// time, so that their watch has events to deliver even if no client can write.
type newCallers struct {
	services client.Services
	meter    *measure.Meter
	now      func() time.Duration
	prefix   string        // of their keys, ending in a slash
	callers  int           // of each kind, at each report
	timeout  time.Duration // of each call

	ctx   context.Context // they outlive the call that announces them
	end   context.CancelFunc
	group sync.WaitGroup
}

// openNewCallers returns new callers that begin with begin, and opens a watch of what
// they put, from a revision on. finish ends it all.
func (r *run) openNewCallers(ctx context.Context, services client.Services, revision int64) *newCallers {
	n := &newCallers{
		services: services, meter: &r.meter, now: r.now, prefix: fmt.Sprintf("/quorate-lab-new/%016x/", r.cfg.Seed),
		callers: r.cfg.Callers, timeout: r.cfg.CallTimeout,
	}
	n.ctx, n.end = context.WithCancel(ctx)
	if services.Watcher != nil {
		n.group.Go(func() { n.watch(revision) })
	}
	return n
}

// begin makes callers get and put, each until it has succeeded.
func (n *newCallers) begin(since time.Duration) {
	for i := range n.callers {
		key := fmt.Sprintf("%s%d/%d", n.prefix, since.Nanoseconds(), i)
		n.group.Go(func() {
			n.try(func(ctx context.Context) error {
				_, err := n.services.Store.Get(ctx, key, false)
				return err
			}, func(at time.Duration) { n.meter.NewGet(since, i, at) })
		})
		n.group.Go(func() {
			n.try(func(ctx context.Context) error {
				_, err := n.services.Store.Put(ctx, key, key)
				return err
			}, func(at time.Duration) { n.meter.NewPut(since, i, at) })
		})
	}
}

// try makes a call until it succeeds, and tells when it has.
func (n *newCallers) try(call func(context.Context) error, done func(at time.Duration)) {
	for n.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(n.ctx, n.timeout)
		err := call(ctx)
		at := n.now()
		cancel()
		if err == nil {
			done(at)
			return
		}
		_ = pause.For(n.ctx, newCallerPause)
	}
}

// watch reports when what new callers put is delivered.
func (n *newCallers) watch(revision int64) {
	req := history.WatchRequest{Key: n.prefix, RangeEnd: n.prefix[:len(n.prefix)-1] + "0", StartRevision: revision}
	for n.ctx.Err() == nil {
		n.read(&req)
		_ = pause.For(n.ctx, newCallerPause)
	}
}

// read reads one watch to its end, and moves the request to where the next is to begin.
func (n *newCallers) read(req *history.WatchRequest) {
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	for resp := range n.services.Watcher.Watch(ctx, *req) {
		at := n.now()
		for _, e := range resp.Events {
			if seq, err := strconv.ParseInt(e.Value, 10, 64); err == nil && e.Key == n.prefix+outsideKey {
				n.meter.OutsideEvent(seq, at)
			}
			if since, caller, ok := n.parse(e.Key); ok {
				n.meter.NewEvent(since, caller, at)
			}
			req.StartRevision = max(req.StartRevision, e.ModRevision+1)
		}
		req.StartRevision = max(req.StartRevision, resp.CompactRevision)
	}
}

// writeOutside writes by the members' own connections, and leaves a member that does not answer.
func (n *newCallers) writeOutside(members []*lab.Member) {
	for seq, at := int64(1), 0; pause.For(n.ctx, outsideEvery) == nil; seq++ {
		ctx, cancel := context.WithTimeout(n.ctx, outsideTimeout)
		_, err := pb.NewKVClient(members[at].Conn()).Put(ctx, &pb.PutRequest{
			Key: []byte(n.prefix + outsideKey), Value: strconv.AppendInt(nil, seq, 10),
		})
		cancel()
		if err != nil {
			at = (at + 1) % len(members)
			continue
		}
		n.meter.OutsideWrite(seq, n.now())
	}
}

// parse returns which new caller puts a key, and since when.
func (n *newCallers) parse(key string) (since time.Duration, caller int, ok bool) {
	moment, number, _ := strings.Cut(strings.TrimPrefix(key, n.prefix), "/")
	ns, err := strconv.ParseInt(moment, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	caller, err = strconv.Atoi(number)
	return time.Duration(ns), caller, err == nil
}

// finish ends the new callers that have not succeeded, and the watch.
func (n *newCallers) finish() {
	n.end()
	n.group.Wait()
}
