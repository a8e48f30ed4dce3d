package channel

import (
	"context"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/retry"
)

// Calls that a user makes on the bare *grpc.ClientConn (ActiveConnection, Dial)
// do not pass a caller. They are the user's own, with gRPC's usual semantics
// and no retry, but for the token: a user cannot know when it must be renewed.

// rawUnary is the first of the chained interceptors of our connections.
func (s *shared) rawUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if attemptFrom(ctx) != nil {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	for refreshes := 0; ; refreshes++ {
		a := new(attempt)
		a.start(ctx, traitsOf(method, req))
		err := invoke(a, method, req, reply, cc, opts...)
		a.release()
		if err == nil {
			return nil
		}
		ev, err := a.outcome(method, err)
		if refreshes == maxTokenRefreshes || retry.Classify(err, ev) != retry.Token {
			return err
		}
		again, failure := s.tokens.replace(ctx, a.token.Load(), err)
		if failure != nil {
			return failure
		}
		if !again {
			return err
		}
	}
}

// rawStream is the first of the chained stream interceptors.
func (s *shared) rawStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if attemptFrom(ctx) != nil {
		return streamer(ctx, desc, cc, method, opts...)
	}
	return s.openStream(ctx, method, traitsOf(method, nil), func(a *attempt) (grpc.ClientStream, error) {
		return streamer(a, desc, cc, method, opts...)
	})
}
