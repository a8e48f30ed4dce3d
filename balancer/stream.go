package balancer

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

const (
	// heavyBytes within heavyWindow on the connection of the calls make streams heavy. A
	// stream of that rate delays small calls by milliseconds.
	heavyBytes  = 1 << 20
	heavyWindow = time.Second
)

// errHeavy is why streams move to a connection of their own.
var errHeavy = status.Error(codes.Unavailable, "the stream moves to a connection apart from that of calls")

// Stream is a stream on an endpoint, whose silence is noticed.
type Stream struct {
	ep     *Endpoint
	conn   *subConn // nil if the endpoint is detached
	cutter func(reason error)
	opened time.Time
	pace   health.Pace
	jitter time.Duration

	// The begin of the present heavyWindow, and what had arrived until then; they belong to
	// the reader.
	window   time.Time
	received int64
}

// OpenStream notes that a stream was opened by the attempt, and returns nil if it was not
// given an endpoint. cut, if it is not nil, is called when the endpoint cannot go on with
// it, before the connection is closed under it; it must not block.
func (a *Attempt) OpenStream(cut func(reason error)) *Stream {
	e, now := a.Endpoint(), time.Now()
	if e == nil {
		return nil
	}
	s := &Stream{ep: e, conn: a.conn.Load(), cutter: cut, opened: now, jitter: rand.N(health.MaxPace)}
	if s.conn == nil {
		return s
	}
	e.inflight.mu.Lock()
	defer e.inflight.mu.Unlock()
	if e.inflight.streams == nil {
		e.inflight.streams = make(map[*Stream]struct{})
	}
	e.inflight.streams[s] = struct{}{}
	e.checkBy(s.dueAt(), now)
	return s
}

// Heard notes that a message arrived on the stream. It is called by one goroutine at a time.
func (s *Stream) Heard() {
	now := time.Now()
	s.pace.Observe(now)
	if s.conn == nil {
		return
	}
	s.conn.hear(now)
	if p := s.ep.policy; needsProbes(s.ep.State()) && !p.canProbe() {
		p.note(s.ep, health.Evidence{Kind: health.Served, At: now, Detail: "a stream goes on"})
	}
	if s.conn.class == Calls {
		s.weigh(now)
	}
	// A timer that is set to a moment this near looks at all streams, and goes on from
	// there.
	if due := s.ep.inflight.due.Load(); due == nil || due.Sub(now) > maxCheck {
		s.ep.checkStreamBy(s, now)
	}
}

// dueAt returns when the silence of the stream is to be checked. Quiet streams are checked at
// random times, so that the first of an endpoint shows the others that it is alive.
func (s *Stream) dueAt() time.Time {
	due := s.pace.DueAt(s.opened)
	if s.pace.Silence(due) >= health.MaxPace {
		return due.Add(s.jitter)
	}
	return due
}

// checkStreamBy sets the timer for a stream that has become lively.
func (e *Endpoint) checkStreamBy(s *Stream, now time.Time) {
	at := s.dueAt()
	e.inflight.mu.Lock()
	defer e.inflight.mu.Unlock()
	if _, open := e.inflight.streams[s]; open {
		e.checkBy(at, now)
	}
}

// weigh looks whether the stream is heavy. Streams then get a connection of their own, and
// those on that of the calls move there.
func (s *Stream) weigh(now time.Time) {
	total := s.conn.conn.received.Load()
	if now.Sub(s.window) >= heavyWindow {
		s.window, s.received = now, total
		return
	}
	if total-s.received < heavyBytes || !s.ep.policy.heavy.CompareAndSwap(false, true) {
		return
	}
	for _, other := range s.ep.inflight.streamsOn(s.conn) {
		other.cut(errHeavy)
	}
}

// cut tells the owner of the stream to end it.
func (s *Stream) cut(reason error) {
	if s.cutter != nil {
		s.cutter(reason)
	}
}

// quietAfter is the silence after which a delay of a fraction of it goes unnoticed.
const quietAfter = time.Second

// Quiet reports whether nothing has been heard on the stream for a second.
func (s *Stream) Quiet() bool {
	now := time.Now()
	return now.Sub(s.opened) >= quietAfter && s.pace.Silence(now) >= quietAfter
}

// Endpoint returns where the stream is.
func (s *Stream) Endpoint() *Endpoint { return s.ep }

// Close notes that the stream has ended.
func (s *Stream) Close() {
	s.ep.inflight.mu.Lock()
	delete(s.ep.inflight.streams, s)
	s.ep.inflight.mu.Unlock()
	if s.ep.policy != nil {
		s.ep.retire()
	}
}
