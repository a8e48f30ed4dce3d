package channel

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
)

// heldConn holds each attempt until the test ends it, or its context ends. Its endpoints take
// turns. It is for use in a bubble.
type heldConn struct {
	grpc.ClientConnInterface
	endpoints []*balancer.Endpoint
	entries   []*health.Entry

	mu   sync.Mutex
	held []*held
}

// held is an attempt that waits for its result.
type held struct {
	*attempt
	method     string
	req, reply any
	answer     chan error
}

// withHeldConn runs a test in virtual time with a connection to two endpoints.
func withHeldConn(t *testing.T, test func(t *testing.T, conn *heldConn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newHeldConn("a", "b")) })
}

func subtestWithHeldConn(t *testing.T, name string, test func(t *testing.T, conn *heldConn)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { withHeldConn(t, test) })
}

func newHeldConn(endpoints ...string) *heldConn {
	c := new(heldConn)
	table := health.NewTable()
	for _, ep := range endpoints {
		entry := table.Acquire("", ep)
		c.entries = append(c.entries, entry)
		c.endpoints = append(c.endpoints, balancer.Detached(ep, entry))
	}
	return c
}

func (c *heldConn) Invoke(ctx context.Context, method string, req, reply any, _ ...grpc.CallOption) error {
	h := &held{attempt: attemptFrom(ctx), method: method, req: req, reply: reply, answer: make(chan error, 1)}
	c.mu.Lock()
	if len(c.endpoints) > 0 {
		if err := h.Picked(c.endpoints[len(c.held)%len(c.endpoints)]); err != nil {
			h.Ended(false)
			c.mu.Unlock()
			return err
		}
	}
	c.held = append(c.held, h)
	c.mu.Unlock()
	select {
	case err := <-h.answer:
		return err
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// attempts returns the attempts so far, once all goroutines are blocked.
func (c *heldConn) attempts() []*held {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*held(nil), c.held...)
}

// latest returns the n-th attempt, which must be the latest.
func (c *heldConn) latest(t *testing.T, n int) *held {
	t.Helper()
	all := c.attempts()
	require.Len(t, all, n)
	return all[n-1]
}

// count is the reply to a Range.
func (h *held) count(n int64) {
	h.reply.(*pb.RangeResponse).Count = n
	h.answer <- nil
}

// underWay is a call in the background.
type underWay struct {
	err   error
	reply any
	done  chan struct{}
}

func (u *underWay) ended() bool {
	synctest.Wait()
	return isClosed(u.done)
}

// goCall starts a call.
func goCall(ctx context.Context, c *Caller, method string, req, reply any, opts ...grpc.CallOption) *underWay {
	u := &underWay{reply: reply, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		u.err = c.Invoke(ctx, method, req, reply, opts...)
	}()
	return u
}

func goRange(ctx context.Context, c *Caller) *underWay {
	return goCall(ctx, c, pb.KV_Range_FullMethodName, &pb.RangeRequest{Key: []byte("k")}, &pb.RangeResponse{})
}

func goPut(ctx context.Context, c *Caller) *underWay {
	return goCall(ctx, c, pb.KV_Put_FullMethodName, &pb.PutRequest{Key: []byte("k")}, &pb.PutResponse{})
}

// count returns the reply to a Range.
func (u *underWay) count() int64 { return u.reply.(*pb.RangeResponse).Count }

// witness records the events of an observer.
type witness struct {
	observe.None
	mu        sync.Mutex
	retries   []observe.Retry
	failovers []observe.Failover
	sent, won []observe.Hedge
	unknown   []observe.UnknownOutcome
	picks     []observe.Pick
	ejected   []observe.Ejection
	readmits  []observe.Readmission
	changes   []health.Change
	endpoints [][]string
}

func record[E any](w *witness, list *[]E, event E) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, event)
}

func (w *witness) Retried(e observe.Retry)                 { record(w, &w.retries, e) }
func (w *witness) FailedOver(e observe.Failover)           { record(w, &w.failovers, e) }
func (w *witness) HedgeSent(e observe.Hedge)               { record(w, &w.sent, e) }
func (w *witness) HedgeWon(e observe.Hedge)                { record(w, &w.won, e) }
func (w *witness) OutcomeUnknown(e observe.UnknownOutcome) { record(w, &w.unknown, e) }
func (w *witness) Picked(e observe.Pick)                   { record(w, &w.picks, e) }
func (w *witness) Ejected(e observe.Ejection)              { record(w, &w.ejected, e) }
func (w *witness) Readmitted(e observe.Readmission)        { record(w, &w.readmits, e) }
func (w *witness) StateChanged(e health.Change)            { record(w, &w.changes, e) }
func (w *witness) EndpointsSet(e []string)                 { record(w, &w.endpoints, e) }
