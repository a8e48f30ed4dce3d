package watch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// splitWatch is a watch that catches up in parts, with the servers of its parts. It checks that the output equals that
// of a single subscription. A fuzzer chooses the steps.
type splitWatch struct {
	t    *testing.T
	in   *choices
	hist *history
	req  *Request

	c      *catchup // nil while not split
	sub    *subscription
	opened []*subscription         // parts that are open on servers
	starts map[*subscription]int64 // start revision of each part
	sent   map[*subscription]int64 // the first unsent revision of each part

	next   int64 // the first revision not emitted
	header int64 // revision in the latest emitted header
	ended  bool
}

func newSplitWatch(t *testing.T, data []byte) *splitWatch {
	sw := &splitWatch{
		t: t, in: &choices{data}, hist: newHistory(), req: &Request{Key: []byte("a"), End: []byte("c")},
		starts: make(map[*subscription]int64), sent: make(map[*subscription]int64),
	}
	density := 1 + sw.in.below(4)
	for range 20 + sw.in.below(200) {
		sw.write(density)
	}
	sw.next = 1 + int64(sw.in.below(20))
	sw.sub = sw.open(sw.next)
	return sw
}

// write makes a revision. One of density revisions concerns the watch, with up to four events.
func (sw *splitWatch) write(density int) {
	keys := []string{"x", "y"}
	if sw.in.below(density) == 0 {
		keys = []string{"a", "x", "b", "b", "b"}
		keys = keys[:1+sw.in.below(len(keys))]
	}
	sw.hist.write(keys...)
}

func (sw *splitWatch) open(from int64) *subscription {
	s := newSubscription(sw.req, nil, from, false)
	sw.opened = append(sw.opened, s)
	sw.starts[s], sw.sent[s] = from, from
	return s
}

func (sw *splitWatch) close(s *subscription) {
	sw.opened = slices.DeleteFunc(sw.opened, func(o *subscription) bool { return o == s })
}

func (sw *splitWatch) emit(h *pb.ResponseHeader, events []*mvccpb.Event) {
	if len(events) == 0 || h == nil {
		sw.t.Fatal("emitted no events")
	}
	last := events[len(events)-1].Kv.ModRevision
	want := sw.hist.between(sw.req, sw.next, last)
	if diff := cmp.Diff(values(want), values(events)); diff != "" {
		sw.t.Fatalf("not what a single subscription delivers from revision %d on: %s", sw.next, diff)
	}
	sw.next = last + 1
	if h.Revision < max(sw.header, last) {
		sw.t.Fatalf("the store was at revision %d, and before at %d, and had sent events up to %d", h.Revision, sw.header, last)
	}
	sw.header = h.Revision
}

func (sw *splitWatch) step() {
	switch sw.in.below(16) {
	case 0:
		sw.write(2)
	case 1:
		sw.hist.compacted = max(sw.hist.compacted, int64(sw.in.below(256))*sw.hist.rev()/512)
	case 2:
		sw.split()
	case 3:
		if sw.in.below(8) == 1 {
			sw.goOnSerially()
		}
	case 4: // the stream broke, and its parts were created again
		if s := sw.pick(); s != nil {
			sw.sent[s] = s.next
		}
	case 5: // from a member that lags behind
		sw.progress(sw.pick(), sw.hist.rev()-int64(sw.in.below(128)))
	case 6, 7:
		sw.progress(sw.pick(), sw.hist.rev())
	default:
		sw.deliver(sw.pick(), 1+sw.in.below(8))
	}
}

func (sw *splitWatch) pick() *subscription {
	if len(sw.opened) == 0 {
		return nil
	}
	return sw.opened[sw.in.below(len(sw.opened))]
}

func (sw *splitWatch) split() {
	if sw.c != nil || sw.ended {
		return
	}
	p := plan{head: sw.hist.rev(), step: int64(1 + sw.in.below(24)), parts: 2 + sw.in.below(7), budget: sw.in.below(32) * eventOverhead}
	sw.c = newCatchup(p, sw.sub, sw)
	sw.after()
}

// goOnSerially ends the split, as for a slow reader.
func (sw *splitWatch) goOnSerially() {
	if sw.c == nil {
		return
	}
	next := sw.c.abandon()
	if len(sw.opened) > 0 {
		sw.t.Fatalf("%d parts are left behind", len(sw.opened))
	}
	sw.skip(next)
	sw.c = nil
	sw.sub = sw.open(next)
}

// skip checks that there is nothing to emit before a revision.
func (sw *splitWatch) skip(next int64) {
	if missing := values(sw.hist.between(sw.req, sw.next, next-1)); len(missing) > 0 || next < sw.next {
		sw.t.Fatalf("everything before revision %d was emitted, and the watch goes on at %d: %v", sw.next, next, missing)
	}
	sw.next = next
}

// deliver sends a batch from a server to a part, or ends the part.
func (sw *splitWatch) deliver(s *subscription, revisions int) {
	if s == nil {
		return
	}
	if sw.sent[s] < sw.hist.compacted {
		sw.cancel(s)
		return
	}
	events, more := sw.hist.batch(sw.req, sw.sent[s], revisions)
	sw.sent[s] = sw.hist.rev() + 1
	if more != 0 {
		sw.sent[s] = more
	}
	if len(events) == 0 {
		return
	}
	s.next = events[len(events)-1].Kv.ModRevision + 1
	if sw.c == nil {
		sw.emit(at(sw.hist.rev()), events)
		return
	}
	sw.c.events(s, at(sw.hist.rev()), events)
	sw.after()
}

// progress reports a revision to a part, if the part has everything up to there.
func (sw *splitWatch) progress(s *subscription, rev int64) {
	if s == nil || rev < s.next || len(sw.hist.between(sw.req, s.next, rev)) > 0 {
		return
	}
	s.next = rev + 1
	sw.sent[s] = s.next
	if sw.c == nil {
		sw.skip(rev + 1)
		return
	}
	sw.c.progress(s, rev)
	sw.after()
}

func (sw *splitWatch) cancel(s *subscription) {
	resp := &pb.WatchResponse{Canceled: true, CompactRevision: sw.hist.compacted}
	sw.close(s)
	if sw.c != nil {
		resp = sw.c.canceled(s, resp)
	}
	if resp != nil {
		sw.end(resp)
		return
	}
	sw.after()
}

func (sw *splitWatch) end(resp *pb.WatchResponse) {
	if resp.CompactRevision <= sw.next {
		sw.t.Fatalf("the watch has everything before revision %d, and ended since %d was compacted", sw.next, resp.CompactRevision)
	}
	if sw.c != nil {
		sw.c.abandon()
		sw.c = nil
	}
	sw.ended, sw.opened = true, nil
}

// after does what a watcher does after each step of its catchup.
func (sw *splitWatch) after() {
	if err := sw.invariants(); err != nil {
		sw.t.Fatal(err)
	}
	switch failure := sw.c.failure(); {
	case failure != nil:
		sw.end(failure)
	case sw.c.finished():
		sw.sub, sw.c = sw.c.current(), nil
		if len(sw.opened) != 1 || sw.opened[0] != sw.sub {
			sw.t.Fatalf("%d subscriptions after the end of a split", len(sw.opened))
		}
		sw.skip(sw.sub.next)
	}
}

func (sw *splitWatch) invariants() error {
	c, held := sw.c, 0
	if c.parts[0].done || len(c.parts[0].held) > 0 {
		return fmt.Errorf("events of the current part are held back")
	}
	for i, p := range c.parts {
		size := 0
		for _, b := range p.held {
			for _, ev := range b.events {
				size += eventSize(ev)
			}
		}
		if size != p.size {
			return fmt.Errorf("part %d holds %d bytes, %d are accounted for", i, size, p.size)
		}
		held += size
		next := c.next
		if i+1 < len(c.parts) {
			next = sw.starts[c.parts[i+1].sub]
		}
		if p.end != next {
			return fmt.Errorf("part %d ends before revision %d, what follows begins at %d", i, p.end, next)
		}
		if slices.Contains(sw.opened, p.sub) != (!p.done && p.over == nil) {
			return fmt.Errorf("part %d: done %v, over %v, and the server has it or not", i, p.done, p.over != nil)
		}
	}
	switch {
	case held != c.held:
		return fmt.Errorf("%d bytes are held, %d are accounted for", held, c.held)
	case held > c.plan.budget:
		return fmt.Errorf("%d parts hold %d bytes, %d are allowed", len(c.parts), held, c.plan.budget)
	case len(c.parts) > c.plan.parts:
		return fmt.Errorf("%d parts, %d are planned", len(c.parts), c.plan.parts)
	}
	return nil
}

// finish lets the servers send everything, and checks that all of it is emitted.
func (sw *splitWatch) finish() {
	for rounds := 0; !sw.ended && (sw.c != nil || sw.next <= sw.hist.rev()); rounds++ {
		if rounds == 10_000 {
			sw.t.Fatal("the watch never catches up")
		}
		for _, s := range slices.Clone(sw.opened) {
			if slices.Contains(sw.opened, s) {
				sw.deliver(s, 3)
			}
			if slices.Contains(sw.opened, s) {
				sw.progress(s, sw.hist.rev())
			}
		}
	}
}
