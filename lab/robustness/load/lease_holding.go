package load

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness/history"
)

const (
	// lookEvery is the time between two looks of a keeper at its key. It is short
	// beside any TTL, which are whole seconds.
	lookEvery = 500 * time.Millisecond
	// lookTimeout bounds a look, so that a member which does not answer does not blind
	// the keeper for as long as the fault is held.
	lookTimeout = time.Second
)

// errKeyGone ends a keepalive whose key is gone.
var errKeyGone = errors.New("the key was gone while the keepalive went on")

// holding is one lease, with its key, in the hands of a keeper.
type holding struct {
	keeper *keeper
	id     int64
	key    string

	mu    sync.Mutex
	claim history.LeaseClaim // the latest
}

// keep keeps the lease alive until it is lost or ctx ends.
func (h *holding) keep(ctx context.Context) {
	keeping, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	renewals := h.keeper.load.services.Lessor.KeepAlive(keeping, h.id)
	h.keeper.tell(history.LeaseEvent{Kind: history.LeaseGranted})
	h.keeper.stood.Do(h.keeper.load.stands)
	var looking sync.WaitGroup
	gone := false
	looking.Go(func() {
		if gone = h.guard(keeping); gone {
			lose(errKeyGone)
		}
	})
	reason := h.renew(renewals)
	cause := context.Cause(keeping)
	switch {
	case cause == nil:
		h.keeper.tell(history.LeaseEvent{Kind: history.LeaseExpired, Code: history.KeepaliveEnded, Err: reason})
	case errors.Is(cause, errKeyGone):
		h.keeper.tell(history.LeaseEvent{Kind: history.LeaseExpired, Code: history.KeyGone})
	}
	lose(nil)
	looking.Wait()
	if cause == nil && !gone {
		h.lookWhileClaimed(ctx)
	}
}

// renew records each renewal and returns why there are no more.
func (h *holding) renew(renewals iter.Seq2[time.Time, error]) (reason error) {
	for until, err := range renewals {
		if err != nil {
			return err
		}
		margin := h.claimed(until)
		h.keeper.tell(history.LeaseEvent{Kind: history.LeaseRenewed, Margin: margin})
	}
	return nil
}

// claimed records until when the client now claims the lease to live, and returns
// how much was left of its claim before.
func (h *holding) claimed(until time.Time) (margin time.Duration) {
	now := h.keeper.load.cfg.Now()
	left := time.Until(until) // measured after now, so that the claim is never made longer
	h.mu.Lock()
	defer h.mu.Unlock()
	margin = h.claim.Until - now
	h.claim = history.LeaseClaim{At: now, Until: now + left}
	return margin
}

func (h *holding) latestClaim() history.LeaseClaim {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.claim
}

// guard looks at the key every now and then until ctx ends, or the key is gone.
func (h *holding) guard(ctx context.Context) (gone bool) {
	for {
		_ = pause.For(ctx, lookEvery)
		if ctx.Err() != nil {
			return false
		}
		if h.look(ctx, lookTimeout) {
			return true
		}
	}
}

// lookWhileClaimed looks at the key of a lease whose keepalive the client has ended,
// if it still claimed the lease to live.
func (h *holding) lookWhileClaimed(ctx context.Context) {
	if left := h.latestClaim().Until - h.keeper.load.cfg.Now(); left > 0 {
		h.look(ctx, left)
	}
}

// look reads the key, tells what it found, and reports whether the key is gone. A
// read that fails says nothing.
func (h *holding) look(ctx context.Context, timeout time.Duration) (gone bool) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l := h.keeper.load
	asked := l.cfg.Now()
	a, err := l.services.Store.Get(ctx, h.key, false)
	if err != nil {
		return false
	}
	l.recorder.Look(history.LeaseLook{
		Lease: h.id, Key: h.key, Asked: asked, Answered: l.cfg.Now(), Revision: a.Revision, Found: a.Read.Found,
		Claim: h.latestClaim(),
	})
	return !a.Read.Found
}
