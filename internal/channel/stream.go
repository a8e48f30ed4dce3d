package channel

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/retry"
)

// Streams returns the Caller for the client's long-lived streams, always the same one.
// Streams have a retry budget separate from calls: a stream that is refused repeatedly must
// not delay calls, and failing calls must not delay the stream that keeps leases alive. The
// balancer chooses the connection ([balancer.Streams]).
func (c *Channel) Streams() *Caller { return c.streams }

func newStreams(calls *Caller) *Caller {
	own := *calls
	// A client has one or two streams.
	throttling := calls.config.Throttling
	throttling.MaxTokens = max(throttling.MaxTokens/2, min(throttling.MaxTokens, 1))
	own.budget = retry.NewBudget(throttling)
	own.class = balancer.Streams
	return &own
}

// openStream opens a stream. It fetches a token if one is required and missing.
func (c *client) openStream(ctx context.Context, a *attempt, method string, p properties, newStream func(*attempt) (grpc.ClientStream, error)) (grpc.ClientStream, error) {
	if err := c.tokens.ensure(ctx); err != nil {
		return nil, err
	}
	a.Stream = true
	c.start(ctx, a, &p)
	cs, err := newStream(a)
	a.Pin()
	if err != nil {
		_, err = a.outcome(method, err)
		a.release()
		return nil, err
	}
	return &stream{ClientStream: cs, attempt: a, tokens: c.tokens}, nil
}

// stream reports its messages to the balancer, and invalidates a token that the server refuses,
// so that the next stream gets a new one.
type stream struct {
	grpc.ClientStream
	attempt *attempt
	tokens  *tokenSource
}

func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.attempt.Heard()
		if resp, _ := m.(*pb.WatchResponse); s.attempt.marks.Load()&markOwn != 0 {
			switch resp.GetCancelReason() {
			case rpctypes.ErrGRPCInvalidAuthToken.Error():
				s.tokens.invalidate(s.attempt, rpctypes.ErrGRPCInvalidAuthToken)
			case rpctypes.ErrGRPCPermissionDenied.Error(): // before etcd 3.5.6 it may be because of the token
				s.tokens.invalidate(nil, rpctypes.ErrGRPCInvalidAuthToken)
			}
		}
		return nil
	}
	if s.attempt.Quiet() {
		s.attempt.marks.Or(markQuiet)
	}
	ev, err := s.attempt.outcome("", err) // any service of etcd may say that the token is invalid
	if retry.Classify(err, ev) == retry.Token {
		s.tokens.drop(s.attempt, err)
	}
	s.attempt.release()
	return err
}
