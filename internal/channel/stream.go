package channel

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/retry"
)

// NewStream opens a stream with the token of the client, which is fetched if
// there is none but not for every stream. It is not retried: what a broken
// stream has delivered, and where to go on, only its owner knows, see [Tries].
//
// The owner reads the stream until RecvMsg fails, or ends its context.
func (c *caller) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.openStream(ctx, method, c.traitsOf(method, nil), func(a *attempt) (grpc.ClientStream, error) {
		cs, err := c.conn.NewStream(a, desc, method, opts...)
		a.opened.Store(true)
		return cs, err
	})
}

func (s *shared) openStream(ctx context.Context, method string, t traits, newStream func(*attempt) (grpc.ClientStream, error)) (grpc.ClientStream, error) {
	if err := s.tokens.ensure(ctx); err != nil {
		return nil, err
	}
	a := new(attempt)
	if tries, ok := ctx.Value(triesKey{}).(*Tries); ok {
		tries.opened = tries.next(a)
		if tries.leaderless {
			t.need = balancer.Local
		}
	}
	a.start(ctx, t)
	cs, err := newStream(a)
	if err != nil {
		_, err = a.outcome(method, err)
		a.release()
		return nil, err
	}
	opened := &stream{ClientStream: cs, method: method, attempt: a, tokens: s.tokens}
	opened.watchFlow()
	context.AfterFunc(a.Context, opened.end)
	return opened, nil
}

// stream has the balancer watch its rhythm, and forgets the token that its server
// refuses, so that the stream which its owner opens next has a new one.
type stream struct {
	grpc.ClientStream
	method  string
	attempt *attempt
	tokens  *tokenSource
	settled bool // a message has come: grpc does not move the stream any more

	mu    sync.Mutex
	ended bool
	at    *balancer.Endpoint
	flow  *balancer.Flow // on at; nil if it is not known where the stream went
}

func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.heard()
		return nil
	}
	ev, err := s.attempt.outcome(s.method, err)
	if retry.Classify(err, ev) == retry.Token {
		s.tokens.drop(s.attempt.token.Load())
	}
	s.end()
	s.attempt.release()
	return err
}

// heard is called with each message, by the one goroutine that may receive.
func (s *stream) heard() {
	if !s.settled {
		s.settled = true
		s.watchFlow()
	}
	if s.flow != nil {
		s.flow.Heard()
	}
}

// watchFlow sees to it that the rhythm is watched of the endpoint that the stream
// went to. That of a user's own stream can change until the first message has come.
func (s *stream) watchFlow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ep := s.attempt.endpoint()
	if s.ended || ep == nil || ep == s.at {
		return
	}
	if s.flow != nil {
		s.flow.Close()
	}
	s.at, s.flow = ep, ep.OpenFlow(s.attempt.Lane, s.attempt.Cut)
}

// end is called when the stream has ended, or its context has.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flow != nil && !s.ended {
		s.attempt.idle.Store(s.flow.Idle())
		s.flow.Close()
	}
	s.ended = true
}
