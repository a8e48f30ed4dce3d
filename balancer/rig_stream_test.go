package balancer_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/balancer"
)

// stream is an open stream of a client.
type stream struct {
	*balancer.Attempt
	cancel context.CancelFunc
	heard  atomic.Int64

	// ended is closed at the end of the stream, after these are set:
	ended   chan struct{}
	err     error
	cut     error // why it was cut, nil if it was not
	endedAt time.Time
}

// open opens a stream at an endpoint, any if nil, and receives its messages.
func (c *client) open(class balancer.ConnClass, only *balancer.Endpoint) *stream {
	c.t.Helper()
	s, err := c.tryOpen(c.t.Context(), class, only)
	require.NoError(c.t, err)
	return s
}

func (c *client) tryOpen(ctx context.Context, class balancer.ConnClass, only *balancer.Endpoint) (*stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watcher{cancel: cancel}
	s := &stream{Attempt: &balancer.Attempt{Conn: class, Stream: true, Watcher: w}, cancel: func() { cancel(nil) }, ended: make(chan struct{})}
	if only != nil {
		s.Avoid, s.AvoidStrictly = c.others(only), true
	}
	rpc, err := pb.NewTestServiceClient(c.ClientConn).StreamingOutputCall(
		balancer.WithAttempt(ctx, s.Attempt), &pb.StreamingOutputCallRequest{}, grpc.WaitForReady(true))
	if err == nil {
		_, err = rpc.Header()
	}
	if err != nil {
		cancel(err)
		return nil, err
	}
	go func() {
		defer close(s.ended)
		defer cancel(nil)
		for s.err == nil {
			if _, s.err = rpc.Recv(); s.err == nil {
				s.Heard()
				s.heard.Add(1)
			}
		}
		s.endedAt = time.Now()
		if cut := w.cut.Load(); cut != nil {
			s.cut = *cut
		}
	}()
	return s, nil
}

// close ends the stream.
func (s *stream) close() {
	s.cancel()
	<-s.ended
}

// server returns the server of an endpoint.
func (c *client) server(ep *balancer.Endpoint) *server {
	c.t.Helper()
	i := slices.IndexFunc(c.servers, func(s *server) bool { return s.addr == ep.Address() })
	require.GreaterOrEqual(c.t, i, 0, ep.Address())
	return c.servers[i]
}

// isOpen reports whether the stream has not ended.
func (s *stream) isOpen() bool { return !isClosed(s.ended) }

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// endsWithin returns why the stream was cut, and fails the test unless it ends in time.
func (s *stream) endsWithin(t *testing.T, limit time.Duration) (cut error) {
	t.Helper()
	select {
	case <-s.ended:
		return s.cut
	case <-time.After(limit):
		require.Fail(t, "the stream continues", "for %v", limit)
		return nil
	}
}
