package channel

import (
	"context"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/retry"
)

// NewStream opens a stream with the token of the client, which is fetched if
// there is none but not for every stream. It is not retried: what a broken
// stream has delivered, and where to go on, only its owner knows, see [Tries].
func (c *caller) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.openStream(ctx, method, func(ctx context.Context) (grpc.ClientStream, error) {
		return c.conn.NewStream(ctx, desc, method, opts...)
	})
}

func (s *shared) openStream(ctx context.Context, method string, newStream func(context.Context) (grpc.ClientStream, error)) (grpc.ClientStream, error) {
	if err := s.tokens.ensure(ctx); err != nil {
		return nil, err
	}
	a := open(ctx)
	cs, err := newStream(a)
	if err != nil {
		return nil, err
	}
	return &stream{ClientStream: cs, method: method, attempt: a, tokens: s.tokens}, nil
}

// stream forgets the token that its server refuses, so that the stream which
// its owner opens next has a new one.
type stream struct {
	grpc.ClientStream
	method  string
	attempt *attempt
	tokens  *tokenSource
}

func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil && retry.Classify(err, s.attempt.evidence(s.method)) == retry.Token {
		s.tokens.drop(s.attempt.token.Load())
	}
	return err
}
