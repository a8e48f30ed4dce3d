package channel

import (
	"context"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/retry"
)

// Calls that a user makes on the bare *grpc.ClientConn (ActiveConnection, Dial)
// do not pass a caller. They are the user's own, with gRPC's usual semantics
// and no retry, but for the token: a user cannot know when it must be renewed.

// rawUnary is the outermost interceptor of our connections.
func (s *shared) rawUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if attemptFrom(ctx) != nil {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	a := &attempt{Context: ctx}
	for refreshes := 0; ; refreshes++ {
		err := invoke(a, method, req, reply, cc, opts...)
		if err == nil || refreshes == maxTokenRefreshes || retry.Classify(err, a.evidence(method)) != retry.Token {
			return err
		}
		again, failure := s.tokens.replace(ctx, a.token.Load(), err)
		if failure != nil {
			return failure
		}
		if !again {
			return err
		}
		a.next()
	}
}

// rawStream makes sure that a user's stream has a token.
func (s *shared) rawStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if attemptFrom(ctx) == nil {
		if err := s.tokens.ensure(ctx); err != nil {
			return nil, err
		}
	}
	return open(ctx, desc, cc, method, opts...)
}
