package balancer

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

const (
	// Streams are heavy once heavyBytes arrive on the connection of class Calls within
	// heavyWindow. A burst delays small calls by milliseconds, and on a link of a few megabits
	// a second by seconds.
	heavyBytes  = 1 << 20
	heavyWindow = 8 * time.Second
)

// errHeavy ends streams that move to a connection of their own.
var errHeavy = status.Error(codes.Unavailable, "the stream moves to a connection apart from that of calls")

// stream is a stream on an endpoint, from its pick to its end. The policy checks it for silence.
type stream struct {
	*call
	pace health.Pace
	// jitter delays the next check of a quiet stream. It changes with each check: otherwise one stream may
	// always be due shortly after another, and find the budget of probes spent.
	jitter atomic.Int64

	sending atomic.Int64 // the health.Moment since when a message waits to be sent, 0 if none does
	blocked atomic.Int32 // checks while it waits

	// The start of the present heavyWindow, and the bytes received until then. Only the
	// reader uses them.
	window   time.Time
	received int64
}

// addStream records a stream that is opened now.
func (e *Endpoint) addStream(c *call) {
	s := &stream{call: c}
	s.jitter.Store(rand.Int64N(int64(health.MaxPace)))
	c.attempt.stream.Store(s)
	e.inflight.mu.Lock()
	defer e.inflight.mu.Unlock()
	if e.inflight.streams == nil {
		e.inflight.streams = make(map[*stream]struct{})
	}
	e.inflight.streams[s] = struct{}{}
	e.checkByLocked(s.dueAt(), c.start)
}

// Opened identifies what gRPC has opened for the attempt's stream: it differs once gRPC has opened the stream again.
func (a *Attempt) Opened() any { return a.stream.Load() }

// deleteStream records that the stream of a pick has ended.
func (e *Endpoint) deleteStream(c *call) {
	s := c.attempt.stream.Load()
	if s == nil || s.call != c {
		return // gRPC has moved it
	}
	e.inflight.mu.Lock()
	defer e.inflight.mu.Unlock()
	delete(e.inflight.streams, s)
}

// Heard records that a message arrived on the attempt's stream ([Attempt.Stream]). It must be called
// by one goroutine at a time. An attempt that no policy of this package picked is ignored.
func (a *Attempt) Heard() {
	s := a.stream.Load()
	if s == nil {
		return
	}
	now, ep := time.Now(), s.conn.ep
	s.pace.Observe(now)
	if !s.conn.useful.Load() {
		s.conn.useful.Store(true)
	}
	s.conn.heardAt(now, s.made)
	if ep.State() != health.Serving {
		ep.policy.prober.readmitUnprobed(ep, now, "a stream goes on")
	}
	if a.Conn == Streams && s.conn.class == Calls {
		s.weigh(now)
	}
	// A timer that is due this soon checks all streams and is then set again.
	if at := health.Moment(now.Sub(firstMoment)); !ep.isDueBy(at + health.Moment(maxCheck)) {
		ep.checkStreamBy(s, at)
	}
}

// sendWait is how long flow control may hold a message back until the stream is checked: the time to the next
// check then doubles, like that of a silence.
const sendWait = 250 * time.Millisecond

// Sending records that a message is about to be sent on the attempt's stream, by one goroutine at a time; [Attempt.Sent]
// that it was. A frozen server stops taking messages. A slow one may, too; a probe tells them apart.
func (a *Attempt) Sending() {
	s := a.stream.Load()
	if s == nil {
		return
	}
	now := momentNow()
	s.blocked.Store(0)
	s.sending.Store(int64(now))
	if !s.conn.ep.isDueBy(now + health.Moment(sendWait)) {
		s.conn.ep.checkStreamBy(s, now)
	}
}

// Sent records the end of what [Attempt.Sending] records.
func (a *Attempt) Sent() {
	if s := a.stream.Load(); s != nil {
		s.sending.Store(0)
	}
}

// silence returns for how long the server has neither sent a message nor taken the one that waits.
func (s *stream) silence(now time.Time) time.Duration {
	silence := s.pace.Silence(now)
	if since := s.sending.Load(); since != 0 {
		return min(silence, now.Sub(health.Moment(since).Time()))
	}
	return silence
}

// checked records a check.
func (s *stream) checked(now time.Time) {
	s.pace.Checked(now)
	s.jitter.Store(rand.Int64N(int64(health.MaxPace)))
	s.blocked.Add(1)
}

// quietAfter is the silence after which a stream is quiet: a short extra delay then does not
// matter.
const quietAfter = time.Second

// Quiet reports whether no message has arrived on the attempt's stream for a second.
func (a *Attempt) Quiet() bool {
	s, now := a.stream.Load(), time.Now()
	return s != nil && now.Sub(s.start.Time()) >= quietAfter && s.pace.Silence(now) >= quietAfter
}

// dueAt returns when to check the stream for silence. Quiet streams are checked at random
// times, so that the first check of an endpoint makes the others unnecessary.
func (s *stream) dueAt() health.Moment {
	due := s.pace.DueAt(s.start.Time())
	if s.pace.Silence(due) >= health.MaxPace {
		due = due.Add(time.Duration(s.jitter.Load()))
	}
	at := health.MomentOf(due)
	if since := s.sending.Load(); since != 0 {
		at = min(at, health.Moment(since)+health.Moment(sendWait<<min(s.blocked.Load(), 16)))
	}
	return at
}

// checkStreamBy sets the timer for a stream that has become active.
func (e *Endpoint) checkStreamBy(s *stream, now health.Moment) {
	at := s.dueAt()
	e.inflight.mu.Lock()
	defer e.inflight.mu.Unlock()
	if _, open := e.inflight.streams[s]; open {
		e.checkByLocked(at, now)
	}
}

// weigh checks whether the stream is heavy. Streams of class Streams then get a connection of their own. Those on the
// connection of class Calls move there once there is one: the next full window finds it.
func (s *stream) weigh(now time.Time) {
	total := s.conn.conn.received.Load()
	full, over := total-s.received >= heavyBytes, now.Sub(s.window) >= heavyWindow
	if full || over {
		s.window, s.received = now, total
	}
	if over || !full {
		return
	}
	p, k := s.conn.ep.policy, s.conn.ep.policy.latest.Load()
	p.heavy.Store(true)
	fit := k.fit[s.attempt.need()]
	if len(s.attempt.Avoid) > 0 { // as a pick does
		fit = k.others(s.attempt, fit)
	}
	if slices.ContainsFunc(fit, func(ep *Endpoint) bool { return ep.usable[Streams].Load() != nil }) {
		s.conn.moveStreams(errHeavy)
		return
	}
	_ = p.openClass(s.attempt.info(s.method), Streams, fit) // its error is that of a pick that waits
}
