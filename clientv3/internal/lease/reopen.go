package lease

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// prepareNext returns nil when it is time to open another stream. Its error says
// that there will be none.
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

// fastReopen returns a context that ends with the engine, or when no lease can wait
// longer for another stream. It has no deadline: Streams would take that for the
// end of all attempts, and wait for none that comes after it.
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

// note notes a failed attempt. One that is followed by a success is ordinary:
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

// end notes that the stream answers.
func (o *outage) end() {
	if o.attempts > 1 {
		o.log().Info("lease keepalive stream is up again",
			zap.Duration("after", time.Since(o.since)), zap.Int("attempts", o.attempts))
	}
	o.attempts = 0
}
