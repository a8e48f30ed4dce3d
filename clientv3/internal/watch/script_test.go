package watch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// script drives a session by hand: it sends the server's responses and checks the session's requests.
type script struct {
	t  *testing.T
	ss *session
}

// connected returns a script whose session has a stream.
func connected(t *testing.T) *script {
	sc := &script{t, newSession()}
	sc.connect()
	return sc
}

// follow adds a subscription, from a revision on.
func (sc *script) follow(rev int64) *follower { return sc.subscribe(Request{Key: []byte("k")}, rev) }

// previous adds a subscription that wants previous key-values.
func (sc *script) previous() *follower {
	return sc.subscribe(Request{Key: []byte("k"), PrevKV: true}, 0)
}

func (sc *script) subscribe(req Request, rev int64) *follower {
	f := &follower{}
	f.sub = newSubscription(&req, f, rev, false)
	sc.ss.add(f.sub)
	return f
}

// follows adds n subscriptions.
func (sc *script) follows(n int) []*follower {
	fs := make([]*follower, n)
	for i := range fs {
		fs[i] = sc.follow(0)
	}
	return fs
}

// sends checks the requests sent since the last call.
func (sc *script) sends(want ...string) {
	sc.t.Helper()
	var got []string
	for _, req := range sc.ss.take() {
		switch {
		case req.GetCreateRequest() != nil:
			got = append(got, fmt.Sprintf("create %d from %d", req.GetCreateRequest().WatchId, req.GetCreateRequest().StartRevision))
		case req.GetCancelRequest() != nil:
			got = append(got, fmt.Sprintf("cancel %d", req.GetCancelRequest().WatchId))
		case req.GetProgressRequest() != nil:
			got = append(got, "progress?")
		}
	}
	assert.Equal(sc.t, want, got)
}

// receives passes responses to the session.
func (sc *script) receives(resps ...*pb.WatchResponse) {
	sc.t.Helper()
	for _, resp := range resps {
		require.NoError(sc.t, sc.ss.receive(resp), "%v", resp)
	}
}

// answersProgress requests progress, and answers for all watchers.
func (sc *script) answersProgress(rev int64) {
	sc.t.Helper()
	sc.ss.requestProgress(false)
	out := sc.ss.take()
	require.NotEmpty(sc.t, out, "no progress was requested")
	require.NotNil(sc.t, out[len(out)-1].GetProgressRequest())
	sc.receives(progressed(invalidID, rev))
}

// breaks passes a response that violates the protocol, and opens another stream.
func (sc *script) breaks(resp *pb.WatchResponse, why string) {
	sc.t.Helper()
	require.ErrorContains(sc.t, sc.ss.receive(resp), why)
	sc.reconnect()
}

func (sc *script) reconnect() {
	sc.ss.disconnect()
	sc.connect()
}

// connect opens a stream, which starts with a progress request.
func (sc *script) connect() {
	sc.ss.connect()
	require.NotNil(sc.t, sc.ss.out[0].GetProgressRequest())
	sc.ss.out = sc.ss.out[1:]
}

// follower owns a subscription, and records what it receives.
type follower struct {
	sub      *subscription
	received []string

	assembled int    // bytes held of an incomplete response
	merges    int    // bytes that may be held
	then      func() // called for each response
}

func (f *follower) note(format string, args ...any) {
	f.received = append(f.received, fmt.Sprintf(format, args...))
	if f.then != nil {
		f.then()
	}
}

// takeReceived returns what the follower received since the last call.
func (f *follower) takeReceived() []string {
	received := f.received
	f.received = nil
	return received
}

func (f *follower) created(*subscription, *pb.ResponseHeader) { f.note("created") }

func (f *follower) refused(_ *subscription, r *pb.WatchResponse) {
	f.note("refused: %s", r.CancelReason)
}

func (f *follower) events(_ *subscription, _ *pb.ResponseHeader, events []*mvccpb.Event) {
	f.note("events %v", revisions(events))
}

func (f *follower) progress(_ *subscription, h *pb.ResponseHeader, notify bool) {
	if notify {
		f.note("progress %d, asked for", h.Revision)
		return
	}
	f.note("progress %d", h.Revision)
}

func (f *follower) canceled(_ *subscription, r *pb.WatchResponse) {
	f.note("canceled, compacted %d", r.CompactRevision)
}

// Responses of a server.

func created(id, rev int64) *pb.WatchResponse {
	return &pb.WatchResponse{Header: at(rev), WatchId: id, Created: true}
}

func refused(reason string) *pb.WatchResponse {
	return &pb.WatchResponse{Header: at(1), WatchId: invalidID, Created: true, Canceled: true, CancelReason: reason}
}

func canceled(id int64) *pb.WatchResponse {
	return &pb.WatchResponse{Header: at(1), WatchId: id, Canceled: true}
}

func progressed(id, rev int64) *pb.WatchResponse {
	return &pb.WatchResponse{Header: at(rev), WatchId: id}
}

func happened(id int64, revs ...int64) *pb.WatchResponse {
	return &pb.WatchResponse{Header: at(revs[len(revs)-1]), WatchId: id, Events: eventsAt(revs...)}
}

func fragment(id int64, revs ...int64) *pb.WatchResponse {
	r := happened(id, revs...)
	r.Fragment = true
	return r
}

// eventsAt returns an event for each revision.
func eventsAt(revs ...int64) []*mvccpb.Event {
	events := make([]*mvccpb.Event, 0, len(revs))
	for _, rev := range revs {
		events = append(events, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), ModRevision: rev}})
	}
	return events
}

func revisions(events []*mvccpb.Event) []int64 {
	var revs []int64
	for _, ev := range events {
		revs = append(revs, ev.GetKv().GetModRevision())
	}
	return revs
}

func (f *follower) assembles(bytes int) { f.assembled += bytes }
func (f *follower) mergeable() int      { return f.merges }
