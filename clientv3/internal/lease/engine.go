package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/observe"
)

// Config configures an [Engine].
type Config struct {
	// Streams opens the stream.
	Streams Streams
	// FirstAnswer is how long a lease with unknown expiry may wait for its first
	// answer before its keepers end.
	FirstAnswer time.Duration
	// Observer receives each renewal, and each loss of a lease that had keepers. It is called without locks.
	Observer observe.Observer
}

// Engine keeps leases alive. It starts with the first subscriber, and must be
// closed.
type Engine struct {
	config  Config
	ctx     context.Context // ends with the engine
	cancel  context.CancelFunc
	running sync.WaitGroup

	sendable chan struct{} // signals the writer that there may be requests
	wanted   chan struct{} // signals the reader that there are leases

	mu      sync.Mutex // guards the rest
	machine *Machine
	started bool
	halted  error       // why there will be no more renewals
	timer   *time.Timer // calls tick; nil until first needed
	armed   time.Time   // when timer fires, zero if it is stopped
	link    link
}

// New returns an Engine that does nothing yet.
func New(config Config) *Engine {
	e := &Engine{
		config:   config,
		sendable: make(chan struct{}, 1),
		wanted:   make(chan struct{}, 1),
		machine:  NewMachine(time.Now(), config.FirstAnswer, rand.Float64),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Subscribe adds a subscriber to a lease until ctx ends, and closes it if ctx has ended. It
// returns an error if the engine has ended, and does not use the subscriber then.
func (e *Engine) Subscribe(ctx context.Context, id int64, s *Subscriber) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.halted != nil {
		return e.halted
	}
	if err := ctx.Err(); err != nil {
		s.Sink.Close(err)
		return nil
	}
	e.startLocked()
	now := time.Now()
	e.machine.Subscribe(now, id, s)
	s.stop = context.AfterFunc(ctx, func() {
		e.update(func(now time.Time) { e.machine.Unsubscribe(now, s, ctx.Err()) })
	})
	e.arrangeLocked(now)
	return nil
}

// Granted records that a lease was granted for ttl seconds by a request sent at the
// given time.
func (e *Engine) Granted(sent time.Time, id, ttl int64) {
	e.update(func(now time.Time) { e.machine.Granted(now, sent, id, ttl) })
}

// Revoked records that a lease was revoked, and ends its subscriptions.
func (e *Engine) Revoked(id int64) {
	e.update(func(now time.Time) { e.machine.Revoked(now, id) })
}

// Close ends all subscriptions with the given cause, and returns when all
// goroutines of the engine have ended. A second Close does nothing.
func (e *Engine) Close(cause error) {
	e.stop(cause)
	e.running.Wait()
}

// stop ends all subscriptions and lets the goroutines end.
func (e *Engine) stop(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.halted != nil {
		return
	}
	e.halted = cause
	e.machine.Close(cause)
	e.cancel()
	if e.timer != nil {
		e.timer.Stop()
	}
}

func (e *Engine) startLocked() {
	if e.started {
		return
	}
	e.started = true
	e.running.Go(e.read)
	e.running.Go(e.write)
}

// update calls f on the machine, unless the engine has ended, and reports the lost leases.
func (e *Engine) update(f func(now time.Time)) {
	for _, lost := range e.apply(f) {
		e.config.Observer.LeaseLost(lost)
	}
}

// apply is update without the report. It returns the lost leases.
func (e *Engine) apply(f func(now time.Time)) []observe.LeaseLoss {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.halted != nil {
		return nil
	}
	now := time.Now()
	f(now)
	if e.started {
		e.arrangeLocked(now)
	}
	return e.machine.TakeLost()
}

func (e *Engine) tick() {
	e.update(func(now time.Time) {
		e.armed = time.Time{}
		e.machine.Advance(now)
		if err := e.machine.Silent(now); err != nil {
			e.loseLocked(now, err)
		}
		if e.machine.Moving(now) {
			e.loseLocked(now, errMoved)
		}
	})
}

func (e *Engine) arrangeLocked(now time.Time) {
	if e.machine.Sendable() {
		pause.Signal(e.sendable)
	}
	if e.machine.Wanted() {
		pause.Signal(e.wanted)
	}
	if e.machine.Waits() {
		e.config.Streams.Wake()
	}
	if wake, ok := e.machine.WakeAt(); ok && (e.armed.IsZero() || wake.Before(e.armed)) {
		e.armLocked(wake, wake.Sub(now))
	}
}

// armLocked sets the timer that calls tick. An armed timer is not moved to a later
// time: most answers postpone the next action, and need not set the timer.
func (e *Engine) armLocked(wake time.Time, after time.Duration) {
	e.armed = wake
	if e.timer == nil {
		e.timer = time.AfterFunc(after, e.tick)
		return
	}
	e.timer.Reset(after)
}

// instant is a point in time, counted from the machine's epoch. It takes a third of
// the space of a time.Time, and every lease has several.
type instant time.Duration

const never instant = math.MaxInt64

func (t instant) add(d time.Duration) instant {
	if sum := t + instant(d); sum >= t || d < 0 {
		return sum
	}
	return never
}

func (t instant) sub(u instant) time.Duration { return time.Duration(t - u) }

const (
	// renewalSpread is the fraction of an interval over which leases are spread
	// after they were sent together: one round dissolves a burst. A larger fraction
	// would cost more requests, since early renewals are more frequent.
	renewalSpread = 0.5

	// steadySpread is the fraction of an interval over which leases are spread
	// otherwise. It keeps clients from synchronizing, for 1.5 % more requests.
	steadySpread = 1.0 / 32

	// silenceShare is the fraction (1/silenceShare) of the TTL for which a stream
	// may be silent with requests unanswered, unless members are known to be slow, see
	// Machine.silenceLimit. After a fault just after a renewal, the next request is sent
	// after a third of the TTL, the stream is closed after another quarter, the
	// next stream after three quarters of the rest, and time is left for a third
	// member.
	silenceShare = 4

	// maxSilence bounds the silence for long leases. A member with a leader answers
	// within milliseconds. One that has lost its leader ends the stream by itself,
	// after three election timeouts: 3 s by etcd's defaults.
	maxSilence = 2 * time.Second

	// maxTolerance bounds the tolerance for slow members.
	maxTolerance = time.Minute

	// pauseShare is the fraction of a lease's remaining time that it may wait for
	// the next attempt to open a stream. minPauseShare is the fraction of its TTL
	// that it waits at least: thousands of leases that expire one after the other
	// must not cause constant attempts while no member answers.
	pauseShare    = 4
	minPauseShare = 32

	// minPause is the least wait of a lease of 2 s or more.
	minPause = 250 * time.Millisecond

	// minWindow is the least window of a lease of 6 s or more.
	minWindow = 125 * time.Millisecond

	// maxMove bounds how long a stream stays on a removed endpoint. The time is
	// random below that, because all clients learn of the removal at once.
	maxMove = time.Second
)

// interval returns how long after a request the next one is due. r is between 0
// and 1.
func interval(ttl time.Duration, many bool, r float64) time.Duration {
	spread := steadySpread
	if many {
		spread = renewalSpread
	}
	third := float64(ttl / 3)
	return time.Duration(third - r*spread*third)
}

// window returns how much earlier than due a lease may be renewed to share a batch
// with another. A batch wakes each goroutine on its path once, here and on the server,
// which is most of the cost of a small batch. With 20 s between renewals there are at
// most two batches per second, for any number of leases and 1.5 % more requests; with
// 2 s there are eight, for 3 %.
func window(ttl time.Duration) time.Duration {
	third := ttl / 3
	return max(third/32, min(third/16, minWindow))
}

// minPauseOf returns the least time that a lease waits for the next attempt to open
// a stream. An eighth of the TTL allows four attempts between a due renewal and the
// expiry.
func minPauseOf(ttl time.Duration) time.Duration {
	return max(ttl/minPauseShare, min(minPause, ttl/8))
}

// seconds converts a TTL to a duration, at most the longest one.
func seconds(ttl int64) time.Duration {
	if ttl > int64(math.MaxInt64/time.Second) {
		return math.MaxInt64
	}
	return time.Duration(ttl) * time.Second
}

// ErrUnanswered reports that a lease may have expired: its TTL has passed without
// an answered renewal.
var ErrUnanswered = errors.New("etcdclient: the lease was not renewed in time")

// Sink receives the events of a lease. Its methods are called in order, by one
// goroutine at a time. They must not block or call back.
type Sink interface {
	// Valid is called when the lease is known to live, before Deliver: it lives at
	// least ttl from renewed on, unless it is revoked or the answer did not come
	// from the leader.
	Valid(renewed time.Time, ttl time.Duration)
	// Deliver is called with each answer.
	Deliver(resp *pb.LeaseKeepAliveResponse)
	// Close is called once, as the last method, with the reason. For a Once
	// subscriber the cause is nil if the lease lives.
	Close(cause error)
}

// Subscriber keeps a lease alive, or renews it once. It is for one call of
// [Engine.Subscribe].
type Subscriber struct {
	// Sink receives the events.
	Sink Sink
	// Once ends the subscription with the answer to the first request sent after it
	// began. TTL 0 is delivered too.
	Once bool
	// RequireLeader ends the subscription when no endpoint knows a leader.
	RequireLeader bool

	lease *entry      // nil when the subscription has ended
	from  uint64      // the first request whose answer is for it
	stop  func() bool // stops listening to its context
}

// wants reports whether the answer to the latest request of l is for s.
func (s *Subscriber) wants(l *entry) bool { return s.from <= l.request }

func (s *Subscriber) end(cause error) {
	s.lease = nil
	if s.stop != nil {
		s.stop()
	}
	s.Sink.Close(cause)
}

// unanswered returns ErrUnanswered, wrapped together with last, the error of the
// latest stream.
func unanswered(last error) error {
	if last == nil {
		return ErrUnanswered
	}
	return fmt.Errorf("%w: %w", ErrUnanswered, rpctypes.Error(last))
}
