package watch

import (
	"bytes"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// history is the history of a store: the events of each revision. An empty etcd is at revision 1.
type history struct {
	events    [][]*mvccpb.Event // by revision
	compacted int64
}

func newHistory() *history { return &history{events: make([][]*mvccpb.Event, 2)} }

func (h *history) rev() int64 { return int64(len(h.events) - 1) }

// write makes a revision with a put of each key.
func (h *history) write(keys ...string) {
	rev := h.rev() + 1
	events := make([]*mvccpb.Event, len(keys))
	for i, key := range keys {
		events[i] = &mvccpb.Event{Kv: &mvccpb.KeyValue{
			Key: []byte(key), ModRevision: rev, Value: fmt.Appendf(nil, "%d.%d", rev, i),
		}}
	}
	h.events = append(h.events, events)
}

// between returns the events of a watch from revision from to revision to.
func (h *history) between(req *Request, from, to int64) []*mvccpb.Event {
	var found []*mvccpb.Event
	for rev := max(from, 0); rev <= min(to, h.rev()); rev++ {
		for _, ev := range h.events[rev] {
			if concerns(req, ev) {
				found = append(found, ev)
			}
		}
	}
	return found
}

// batch returns the events from a revision on, of at most the given number of revisions, and the first remaining
// revision with events, or 0.
func (h *history) batch(req *Request, from int64, revisions int) ([]*mvccpb.Event, int64) {
	var found []*mvccpb.Event
	for rev := max(from, 0); rev <= h.rev(); rev++ {
		events := h.between(req, rev, rev)
		if len(events) == 0 {
			continue
		}
		if revisions == 0 {
			return found, rev
		}
		revisions--
		found = append(found, events...)
	}
	return found, 0
}

func concerns(req *Request, ev *mvccpb.Event) bool {
	if len(req.End) == 0 {
		return bytes.Equal(req.Key, ev.Kv.Key)
	}
	return bytes.Compare(req.Key, ev.Kv.Key) <= 0 && bytes.Compare(ev.Kv.Key, req.End) < 0
}

// at returns a response header with a revision.
func at(rev int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 1, MemberId: 2, RaftTerm: 3, Revision: rev}
}

// values returns the distinct value of each event.
func values(events []*mvccpb.Event) []string {
	names := make([]string, len(events))
	for i, ev := range events {
		names[i] = string(ev.GetKv().GetKey()) + "@" + string(ev.GetKv().GetValue())
	}
	return names
}

// choices makes decisions from a fuzzer's bytes. Without bytes it chooses the first alternative.
type choices struct{ data []byte }

func (c *choices) more() bool { return len(c.data) > 0 }

// below returns a number from 0 to n-1, for n up to 256.
func (c *choices) below(n int) int {
	if !c.more() {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return int(b) % n
}
