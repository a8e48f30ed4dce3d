package load

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/lab/history"
)

const (
	// lookEvery is the time between two looks of a keeper at its key. It is short
	// beside any TTL, which are whole seconds.
	lookEvery = 500 * time.Millisecond
	// regrantPause is how long a keeper waits when it has lost its lease, or did not
	// get one, before it asks for another.
	regrantPause = 100 * time.Millisecond
)

// errKeyGone ends a keepalive whose key is gone.
var errKeyGone = errors.New("the key was gone while the keepalive went on")

// keeper holds a lease with a key attached, and a new one when it has lost it.
type keeper struct {
	load  *Load
	key   string
	stood sync.Once
}

func (l *Load) newKeeper(index int) *keeper {
	return &keeper{load: l, key: l.cfg.LeasePrefix + strconv.Itoa(index)}
}

// run holds one lease after the other until ctx ends.
func (k *keeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := k.hold(ctx); err != nil && ctx.Err() == nil {
			k.tell(history.LeaseEvent{Kind: history.LeaseFailed, Code: code(err), Err: err})
		}
		sleep(ctx, regrantPause)
	}
}

// hold gets a lease and keeps it until it is lost. An error means that there was
// nothing to keep.
func (k *keeper) hold(ctx context.Context) error {
	sent := k.load.cfg.Now()
	id, ttl, err := k.obtain(ctx)
	if err != nil {
		return err
	}
	ctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	renewals := k.load.services.Lessor.KeepAlive(ctx, id)
	k.tell(history.LeaseEvent{Kind: history.LeaseGranted})
	k.stood.Do(k.load.stands)
	var looking sync.WaitGroup
	looking.Go(func() { k.look(ctx, lose) })
	reason := k.renew(renewals, sent+ttl)
	switch cause := context.Cause(ctx); {
	case cause == nil:
		k.tell(history.LeaseEvent{Kind: history.LeaseExpired, Code: history.KeepaliveEnded, Err: reason})
	case errors.Is(cause, errKeyGone):
		k.tell(history.LeaseEvent{Kind: history.LeaseExpired, Code: history.KeyGone})
	}
	lose(nil)
	looking.Wait()
	return nil
}

// obtain gets a lease and attaches the key.
func (k *keeper) obtain(ctx context.Context) (id int64, ttl time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.load.cfg.Timeout)
	defer cancel()
	id, ttl, err = k.load.services.Lessor.Grant(ctx, k.load.cfg.LeaseTTL)
	if err != nil {
		return 0, 0, err
	}
	return id, ttl, k.load.services.Lessor.Attach(ctx, id, k.key, strconv.FormatInt(id, 16))
}

// renew tells of each renewal and returns why there are no more. expiry is when the
// lease ends without one, at the earliest.
func (k *keeper) renew(renewals iter.Seq2[time.Duration, error], expiry time.Duration) (reason error) {
	for ttl, err := range renewals {
		if err != nil {
			return err
		}
		now := k.load.cfg.Now()
		k.tell(history.LeaseEvent{Kind: history.LeaseRenewed, Margin: expiry - now})
		expiry = now + ttl
	}
	return nil
}

// look reads the key every now and then, and ends the lease when it is gone. A
// read that fails says nothing.
func (k *keeper) look(ctx context.Context, lose context.CancelCauseFunc) {
	for {
		sleep(ctx, lookEvery)
		if ctx.Err() != nil {
			return
		}
		if a, err := k.read(ctx); err == nil && !a.Read.Found {
			lose(errKeyGone)
			return
		}
	}
}

func (k *keeper) read(ctx context.Context) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, k.load.cfg.Timeout)
	defer cancel()
	return k.load.services.Store.Get(ctx, k.key, false)
}

// tell tells the recorder what has just happened.
func (k *keeper) tell(e history.LeaseEvent) {
	e.At = k.load.cfg.Now()
	k.load.recorder.Lease(e)
}
