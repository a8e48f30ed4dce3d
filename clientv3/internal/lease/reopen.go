package lease

import (
	"context"
	"time"
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
