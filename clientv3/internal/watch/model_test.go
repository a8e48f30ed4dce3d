package watch

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
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

// reader owns a subscription, and compares what it receives with the history of the store.
type reader struct {
	t    *testing.T
	hist *history
	sub  *subscription

	early  func() bool // whether progress for all may be wrong
	wanted bool
	over   bool  // refused or cancelled by the server
	next   int64 // the first undelivered revision, 0 if unknown
}

func newReader(t *testing.T, h *history, req Request) *reader {
	r := &reader{t: t, hist: h, next: req.Rev, early: func() bool { return false }}
	r.sub = newSubscription(&req, r, req.Rev, false)
	return r
}

// checkWanted checks that the reader may receive a response.
func (r *reader) checkWanted(s *subscription) {
	require.Same(r.t, r.sub, s, "response for another owner's subscription")
	require.True(r.t, r.wanted, "a removed subscription receives nothing")
}

func (r *reader) created(s *subscription, h *pb.ResponseHeader) {
	r.checkWanted(s)
	require.Equal(r.t, live, s.state)
	if r.next == 0 {
		r.next = h.GetRevision() + 1
	}
}

func (r *reader) refused(s *subscription, resp *pb.WatchResponse) {
	r.checkWanted(s)
	require.Equal(r.t, parked, s.state)
	require.Equal(r.t, denied, string(s.req.Key), "refused: %v", resp)
	r.wanted, r.over = false, true
}

func (r *reader) events(s *subscription, _ *pb.ResponseHeader, events []*mvccpb.Event) {
	r.checkWanted(s)
	require.NotEmpty(r.t, events)
	last := events[len(events)-1].Kv.ModRevision
	want := r.hist.between(s.req, r.next, last)
	require.Empty(r.t, cmp.Diff(values(want), values(events)), "the history from revision %d on", r.next)
	r.next = last + 1
	require.Equal(r.t, r.next, s.next, "where to resume")
}

func (r *reader) progress(s *subscription, h *pb.ResponseHeader, notify bool) {
	r.checkWanted(s)
	require.LessOrEqual(r.t, h.Revision, r.hist.rev())
	if notify && r.early() && s.next == r.next {
		return // passed on without moving the resume point
	}
	r.claim(h.Revision)
	require.Equal(r.t, r.next, s.next, "where to resume")
}

// claim checks that nothing up to a revision is undelivered.
func (r *reader) claim(rev int64) {
	require.GreaterOrEqual(r.t, rev+1, r.next, "progress goes backwards")
	missing := r.hist.between(r.sub.req, r.next, rev)
	require.Empty(r.t, values(missing), "progress up to revision %d skips undelivered events", rev)
	r.next = rev + 1
}

func (r *reader) canceled(s *subscription, resp *pb.WatchResponse) {
	r.checkWanted(s)
	require.Equal(r.t, parked, s.state)
	require.Greater(r.t, resp.CompactRevision, r.next, "wanted revisions were compacted")
	r.wanted, r.over = false, true
}

func (r *reader) assembles(int)  {}
func (r *reader) mergeable() int { return 0 }

// check checks the invariants of a session.
func (sm *simulation) check() {
	if err := sm.invariants(); err != nil {
		sm.t.Fatal(err)
	}
}

func (sm *simulation) invariants() error {
	places, err := placesOf(sm.ss)
	if err != nil {
		return err
	}
	for i, r := range sm.readers {
		switch s := r.sub; {
		case r.wanted != (places[s] != parked):
			return fmt.Errorf("reader %d: wanted: %v, but its subscription is %v", i, r.wanted, s.state)
		case s.state != places[s]:
			return fmt.Errorf("reader %d: its subscription is %v and stands where it would be %v", i, s.state, places[s])
		case r.next != s.next:
			return fmt.Errorf("reader %d: it has everything before revision %d, its subscription resumes at %d", i, r.next, s.next)
		}
	}
	if sm.ss.progress.early && !sm.srv.early && !sm.srv.kine {
		return errors.New("the server is held to be early, and is not")
	}
	return protocol(sm.ss)
}

// placesOf returns where the session keeps each subscription. Each must be in one place only, and know it.
func placesOf(ss *session) (map[*subscription]state, error) {
	places := make(map[*subscription]state)
	for _, s := range ss.queue {
		if places[s] != parked || s.state != queued {
			return nil, fmt.Errorf("a subscription is queued twice, or does not know that it is: %+v", s)
		}
		places[s] = queued
	}
	place := func(s *subscription, id int64, where state) error {
		if places[s] != parked || s.state != where || s.id != id {
			return fmt.Errorf("%v as watch %d, and also %v: %+v", where, id, places[s], s)
		}
		places[s] = where
		return nil
	}
	for _, a := range ss.pending {
		if a.sub == nil {
			continue
		}
		if err := place(a.sub, a.id, asked); err != nil {
			return nil, err
		}
	}
	for id, s := range ss.live {
		if err := place(s, id, live); err != nil {
			return nil, err
		}
	}
	return places, nil
}

// protocol checks the requests in flight.
func protocol(ss *session) error {
	for i := range ss.pending {
		if i > 0 && ss.pending[i].id <= ss.pending[i-1].id {
			return fmt.Errorf("creates out of order: %v", ss.pending)
		}
	}
	switch under := len(ss.pending); {
	case !ss.connected && len(ss.out)+under+len(ss.live) > 0:
		return fmt.Errorf("without a stream: %d requests, %d creates under way, %d watches", len(ss.out), under, len(ss.live))
	case ss.mode != pipelined && under > 1:
		return fmt.Errorf("%d creates under way, one is allowed", under)
	case ss.connected && len(ss.queue) > 0 && (ss.mode == pipelined || under == 0):
		return fmt.Errorf("%d subscriptions wait for nothing", len(ss.queue))
	}
	return nil
}
