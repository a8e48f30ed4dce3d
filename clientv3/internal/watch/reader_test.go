package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

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
	r.sub = newSubscription(&req, r, req.Rev)
	return r
}

// heard checks that the reader may receive a response.
func (r *reader) heard(s *subscription) {
	require.Same(r.t, r.sub, s, "response for another owner's subscription")
	require.True(r.t, r.wanted, "a removed subscription receives nothing")
}

func (r *reader) created(s *subscription, h *pb.ResponseHeader) {
	r.heard(s)
	require.Equal(r.t, live, s.state)
	if r.next == 0 {
		r.next = h.GetRevision() + 1
	}
}

func (r *reader) refused(s *subscription, resp *pb.WatchResponse) {
	r.heard(s)
	require.Equal(r.t, parked, s.state)
	require.Equal(r.t, denied, string(s.req.Key), "refused: %v", resp)
	r.wanted, r.over = false, true
}

func (r *reader) events(s *subscription, _ *pb.ResponseHeader, events []*mvccpb.Event) {
	r.heard(s)
	require.NotEmpty(r.t, events)
	last := events[len(events)-1].Kv.ModRevision
	want := r.hist.between(s.req, r.next, last)
	require.Empty(r.t, cmp.Diff(values(want), values(events)), "the history from revision %d on", r.next)
	r.next = last + 1
	require.Equal(r.t, r.next, s.next, "where to resume")
}

func (r *reader) progress(s *subscription, h *pb.ResponseHeader, notify bool) {
	r.heard(s)
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
	r.heard(s)
	require.Equal(r.t, parked, s.state)
	require.Greater(r.t, resp.CompactRevision, r.next, "wanted revisions were compacted")
	r.wanted, r.over = false, true
}

func (r *reader) assembles(int)  {}
func (r *reader) mergeable() int { return 0 }
