package channel

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/retry"
)

// Streams returns what carries the client's long-lived streams, the same each time. They
// share a retry budget, which is not that of the calls: a stream that is refused for as long
// as it is tried must not make calls wait that others would serve, and failing calls must
// not hold up the stream that keeps leases alive. Which connections carry them is the
// balancer's to say ([balancer.Streams]).
func (c *Channel) Streams() *Caller { return c.streams }

func newStreams(calls *Caller) *Caller {
	own := *calls
	// A client has one or two streams, and many calls.
	throttling := calls.config.Throttling
	throttling.MaxTokens /= 2
	own.budget = retry.NewBudget(throttling)
	own.class = balancer.Streams
	return &own
}

// openStream opens a stream, with a token that is fetched if there is none, but not for
// every stream.
func (c *client) openStream(ctx context.Context, a *attempt, method string, p properties, newStream func(*attempt) (grpc.ClientStream, error)) (grpc.ClientStream, error) {
	if err := c.tokens.ensure(ctx); err != nil {
		return nil, err
	}
	a.start(ctx, p)
	cs, err := newStream(a)
	a.Pin()
	if err != nil {
		_, err = a.outcome(method, err)
		a.release()
		return nil, err
	}
	opened := &stream{ClientStream: cs, method: method, attempt: a, tokens: c.tokens}
	opened.track()
	context.AfterFunc(a.ctx, opened.end)
	return opened, nil
}

// stream has the balancer watch its silence, and forgets the token that its server refuses,
// so that the stream which its owner opens next has a new one.
type stream struct {
	grpc.ClientStream
	method  string
	attempt *attempt
	tokens  *tokenSource
	settled bool // a message has come: grpc does not move the stream any more

	mu      sync.Mutex
	ended   bool
	tracked *balancer.Stream // nil if it is not known where the stream went
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
		s.track()
	}
	if s.tracked != nil {
		s.tracked.Heard()
	}
}

// track has the balancer watch the stream where it is. A user's own stream can change its
// endpoint until the first message has come.
func (s *stream) track() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ep := s.attempt.endpoint()
	if s.ended || ep == nil || s.tracked != nil && s.tracked.Endpoint() == ep {
		return
	}
	if s.tracked != nil {
		s.tracked.Close()
	}
	s.tracked = s.attempt.OpenStream(s.attempt.Cut)
}

// end is called when the stream has ended, or its context has.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracked != nil && !s.ended {
		s.attempt.quiet.Store(s.tracked.Quiet())
		s.tracked.Close()
	}
	s.ended = true
}
