package lease

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// prepareNext waits until it is time to open another stream. An error means that no
// further stream will be opened.
func (e *Engine) prepareNext(cause error) error {
	ctx, cancel := e.fastReopen()
	defer cancel()
	err := e.config.Streams.Next(ctx, cause)
	if e.config.Streams.Leaderless() {
		e.update(e.machine.Leaderless)
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	e.update(func(now time.Time) { e.machine.Refused(now, err) })
	if err := e.config.Streams.Pause(ctx, cause); ctx.Err() == nil {
		return err
	}
	return nil
}

// fastReopen returns a context that ends with the engine, or when a lease can wait
// no longer for another stream. It has no deadline: Streams would take a deadline
// for the end of all attempts, and not start a wait that ends after it.
func (e *Engine) fastReopen() (context.Context, context.CancelFunc) {
	e.mu.Lock()
	longest := e.machine.Pause(time.Now())
	e.mu.Unlock()
	ctx, cancel := context.WithCancel(e.ctx)
	timer := time.AfterFunc(longest, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

// outage logs that the stream is down, once and not for each attempt.
type outage struct {
	log      func() *zap.Logger
	since    time.Time
	attempts int
}

// note records a failed attempt. A single failure before a success is normal:
// members restart.
func (o *outage) note(err error) {
	switch o.attempts++; o.attempts {
	case 1:
		o.since = time.Now()
		o.log().Debug("lease keepalive stream ended; opening another", zap.Error(err))
	case 2:
		o.log().Warn("lease keepalive stream is down; trying to open another", zap.Error(err))
	}
}

// end records that the stream answers.
func (o *outage) end() {
	if o.attempts > 1 {
		o.log().Info("lease keepalive stream is up again",
			zap.Duration("after", time.Since(o.since)), zap.Int("attempts", o.attempts))
	}
	o.attempts = 0
}
