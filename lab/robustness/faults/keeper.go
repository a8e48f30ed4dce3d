package faults

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/quorate/quorate/internal/pause"
)

// regrantPause is how long a keeper waits when it has lost its lease, or did not
// get one, before it asks for another.
const regrantPause = 100 * time.Millisecond

// lease is a lease that a keeper got, with what the client claimed of it.
type lease struct {
	id     int64
	key    string // attached to this lease alone
	claims []claim
}

// claim is a claim of the client about a lease.
type claim struct {
	// at is when the keeper received it: an answer to a keepalive arrived, or the grant.
	at time.Duration
	// until is until when the lease is claimed to live. After the grant that is a TTL
	// from its sending.
	until time.Duration
}

// keepLeases holds one lease after the other, with a key attached, until ctx ends.
func (l *load) keepLeases(ctx context.Context, index int) {
	r := l.run
	for ctx.Err() == nil {
		held, err := r.obtain(ctx, index)
		got := err == nil
		if got {
			err = r.keep(ctx, held)
		}
		r.mu.Lock()
		if got {
			r.leases = append(r.leases, held)
		}
		if ctx.Err() == nil {
			r.rec.LeaseEnded(got, err)
		}
		r.mu.Unlock()
		_ = pause.For(ctx, regrantPause)
	}
}

// obtain gets a lease and attaches a key to it. The keys are not below the prefix of the callers' keys, which are never deleted, and
// no other lease has the same one: a late attachment cannot take over the key of the next lease.
func (r *run) obtain(ctx context.Context, index int) (*lease, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	sent := r.env.Now()
	id, ttl, err := r.conn.Lessor.Grant(ctx, r.cfg.LeaseTTL)
	if err != nil {
		return nil, err
	}
	value := strconv.FormatInt(id, 16)
	held := &lease{id, fmt.Sprintf("/quorate-lab-leases/%016x/%d/%s", r.cfg.Seed, index, value), []claim{{r.env.Now(), sent + ttl}}}
	return held, r.conn.Lessor.Attach(ctx, id, held.key, value)
}

// keep keeps a lease alive until its keepalive ends, and returns why it did.
func (r *run) keep(ctx context.Context, held *lease) (reason error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for until, err := range r.conn.Lessor.KeepAlive(ctx, held.id) {
		if err != nil {
			return err
		}
		now := r.env.Now()
		left := time.Until(until) // measured after now, so that the claim is never made longer
		held.claims = append(held.claims, claim{now, now + left})
	}
	return nil
}
