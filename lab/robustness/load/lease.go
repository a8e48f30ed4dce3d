package load

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness/history"
)

const (
	// regrantPause is how long a keeper waits when it has lost its lease, or did not
	// get one, before it asks for another.
	regrantPause = 100 * time.Millisecond
	// revokeTimeout bounds the attempt to take back a lease to which no key could be
	// attached. It is short beside the TTL, after which the lease ends anyway.
	revokeTimeout = time.Second
)

// keeper holds a lease with a key attached, and a new one when it has lost it.
type keeper struct {
	load   *Load
	prefix string // of the keys
	stood  sync.Once
}

func (l *Load) newKeeper(index int) *keeper {
	return &keeper{load: l, prefix: l.cfg.LeasePrefix + strconv.Itoa(index) + "/"}
}

// run holds one lease after the other until ctx ends.
func (k *keeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		held, err := k.obtain(ctx)
		switch {
		case err == nil:
			held.keep(ctx)
		case ctx.Err() == nil:
			k.tell(history.LeaseEvent{Kind: history.LeaseFailed, Code: code(err), Err: err})
		}
		_ = pause.For(ctx, regrantPause)
	}
}

// obtain gets a lease and attaches a key to it that no other lease ever has: a late
// attachment cannot take over the key of the next lease. A lease without a key is
// taken back.
func (k *keeper) obtain(ctx context.Context) (*holding, error) {
	obtaining, cancel := context.WithTimeout(ctx, k.load.cfg.Timeout)
	defer cancel()
	sent := k.load.cfg.Now()
	id, ttl, err := k.load.services.Lessor.Grant(obtaining, k.load.cfg.LeaseTTL)
	if err != nil {
		return nil, err
	}
	value := strconv.FormatInt(id, 16)
	h := &holding{keeper: k, id: id, key: k.prefix + value}
	h.claim = history.LeaseClaim{At: k.load.cfg.Now(), Until: sent + ttl}
	if err := k.load.services.Lessor.Attach(obtaining, id, h.key, value); err != nil {
		k.revoke(ctx, id)
		return nil, err
	}
	return h, nil
}

// revoke takes a lease back, if the cluster answers.
func (k *keeper) revoke(ctx context.Context, id int64) {
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	_ = k.load.services.Lessor.Revoke(ctx, id) // the lease ends by itself if this fails
}

// tell tells the recorder what has just happened.
func (k *keeper) tell(e history.LeaseEvent) {
	e.At = k.load.cfg.Now()
	k.load.recorder.Lease(e)
}
