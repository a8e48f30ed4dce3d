package channel

import (
	"context"
	"sync"

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
	throttling.MaxTokens /= 2
	own.budget = retry.NewBudget(throttling)
	own.class = balancer.Streams
	return &own
}

// openStream opens a stream. It fetches a token if one is required and missing.
func (c *client) openStream(ctx context.Context, a *attempt, method string, p properties, newStream func(*attempt) (grpc.ClientStream, error)) (grpc.ClientStream, error) {
	if err := c.tokens.ensure(ctx); err != nil {
		return nil, err
	}
	c.tokens.avoid(a)
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

// stream reports its messages to the balancer, which checks it for silence, and invalidates
// a token that the server refuses, so that the next stream gets a new one.
type stream struct {
	grpc.ClientStream
	method  string
	attempt *attempt
	tokens  *tokenSource
	settled bool // a message has arrived: gRPC no longer moves the stream

	mu      sync.Mutex
	ended   bool
	tracked *balancer.Stream // nil if the endpoint of the stream is unknown
}

func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.heard()
		return nil
	}
	ev, err := s.attempt.outcome(s.method, err)
	if retry.Classify(err, ev) == retry.Token {
		s.tokens.drop(s.attempt)
	}
	s.end()
	s.attempt.release()
	return err
}

// heard is called for each message, by the receiving goroutine.
func (s *stream) heard() {
	if !s.settled {
		s.settled = true
		s.track()
	}
	if s.tracked != nil {
		s.tracked.Heard()
	}
}

// track registers the stream with the balancer. A user's own stream can move to another
// endpoint until its first message arrives.
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

// end is called when the stream or its context has ended.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracked != nil && !s.ended {
		s.attempt.quiet.Store(s.tracked.Quiet())
		s.tracked.Close()
	}
	s.ended = true
}
