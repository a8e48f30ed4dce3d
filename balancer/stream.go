package balancer

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

const (
	// Streams are heavy once heavyBytes arrive on the connection of class Calls within
	// heavyWindow. A stream of that rate delays small calls by milliseconds.
	heavyBytes  = 1 << 20
	heavyWindow = time.Second
)

// errHeavy ends streams that move to a connection of their own.
var errHeavy = status.Error(codes.Unavailable, "the stream moves to a connection apart from that of calls")

// Stream tracks a stream on an endpoint. The policy checks it for silence.
type Stream struct {
	ep     *Endpoint
	conn   *subConn // nil if the endpoint is detached
	cutter func(reason error)
	opened time.Time
	pace   health.Pace
	jitter time.Duration

	// The start of the present heavyWindow, and the bytes received until then. Only the
	// reader uses them.
	window   time.Time
	received int64
}

// OpenStream records that the attempt opened a stream. It returns nil if the attempt has
// no endpoint. cut, if not nil, is called when the endpoint can no longer serve the
// stream, before its connection is closed; it must not block.
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

// Heard records that a message arrived on the stream. It must be called by one goroutine at
// a time.
func (s *Stream) Heard() {
	now := time.Now()
	s.pace.Observe(now)
	if s.conn == nil {
		return
	}
	s.conn.heardAt(now)
	s.ep.policy.readmitUnprobed(s.ep, now, "a stream goes on")
	if s.conn.class == Calls {
		s.weigh(now)
	}
	// A timer that is due this soon checks all streams and is then set again.
	if due := s.ep.inflight.due.Load(); due == nil || due.Sub(now) > maxCheck {
		s.ep.checkStreamBy(s, now)
	}
}

// dueAt returns when to check the stream for silence. Quiet streams are checked at random
// times, so that the first check of an endpoint makes the others unnecessary.
func (s *Stream) dueAt() time.Time {
	due := s.pace.DueAt(s.opened)
	if s.pace.Silence(due) >= health.MaxPace {
		return due.Add(s.jitter)
	}
	return due
}

// checkStreamBy sets the timer for a stream that has become active.
func (e *Endpoint) checkStreamBy(s *Stream, now time.Time) {
	at := s.dueAt()
	e.inflight.mu.Lock()
	defer e.inflight.mu.Unlock()
	if _, open := e.inflight.streams[s]; open {
		e.checkBy(at, now)
	}
}

// weigh checks whether the stream is heavy. Streams then get a connection of their own,
// and those on the connection of class Calls move there.
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

// cut calls the cut function of the stream's owner.
func (s *Stream) cut(reason error) {
	if s.cutter != nil {
		s.cutter(reason)
	}
}

// quietAfter is the silence after which a stream is quiet: a short extra delay then does
// not matter.
const quietAfter = time.Second

// Quiet reports whether no message has arrived on the stream for a second.
func (s *Stream) Quiet() bool {
	now := time.Now()
	return now.Sub(s.opened) >= quietAfter && s.pace.Silence(now) >= quietAfter
}

// Endpoint returns the stream's endpoint.
func (s *Stream) Endpoint() *Endpoint { return s.ep }

// Close records that the stream has ended.
func (s *Stream) Close() {
	s.ep.inflight.mu.Lock()
	delete(s.ep.inflight.streams, s)
	s.ep.inflight.mu.Unlock()
	if s.ep.policy != nil {
		s.ep.retire()
	}
}
