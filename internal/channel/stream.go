package channel

import (
	"context"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/retry"
)

// NewStream opens a stream with the token of the client, which is fetched if
// there is none but not for every stream. It is not retried: what a broken
// stream has delivered, and where to go on, only its owner knows.
func (c *caller) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := c.tokens.ensure(ctx); err != nil {
		return nil, err
	}
	a := &attempt{Context: ctx}
	s, err := c.conn.NewStream(a, desc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &stream{ClientStream: s, method: method, attempt: a, tokens: c.tokens}, nil
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
