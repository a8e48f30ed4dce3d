package faults

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness/report"
)

const (
	// regrantPause is how long a keeper waits when it has lost its lease, or did not
	// get one, before it asks for another.
	regrantPause = 100 * time.Millisecond
	// revokeTimeout bounds the attempt to revoke a lease to which no key could be
	// attached. It is short compared with the TTL, after which the lease ends
	// anyway.
	revokeTimeout = time.Second
)

// errKeyGone ends a keepalive whose key is gone.
var errKeyGone = errors.New("the key was gone while the keepalive went on")

// keeper holds a lease with a key attached, and a new one when it has lost it.
type keeper struct {
	run    *run
	prefix string          // of the keys
	work   *sync.WaitGroup // of all keepers
}

// newKeeper returns a keeper whose keys are not below the prefix of the callers' keys, which are never deleted.
func (l *load) newKeeper(index int) *keeper {
	return &keeper{run: l.run, prefix: fmt.Sprintf("/quorate-lab-leases/%016x/%d/", l.run.cfg.Seed, index), work: &l.keepers}
}

// keepLeases holds one lease after the other until ctx ends.
func (k *keeper) keepLeases(ctx context.Context) {
	for ctx.Err() == nil {
		held, err := k.obtain(ctx)
		switch {
		case err == nil:
			held.keep(ctx)
		case ctx.Err() == nil:
			k.record(func(r *report.Recording) { r.LeaseFailed(err) })
		}
		_ = pause.For(ctx, regrantPause)
	}
}

// obtain gets a lease and attaches a key to it that no other lease ever has: a late
// attachment cannot take over the key of the next lease. A lease without a key is
// taken back.
func (k *keeper) obtain(ctx context.Context) (*lease, error) {
	obtaining, cancel := context.WithTimeout(ctx, k.run.cfg.CallTimeout)
	defer cancel()
	lessor, sent := k.run.conn.Lessor, k.run.env.Now()
	id, ttl, err := lessor.Grant(obtaining, k.run.cfg.LeaseTTL)
	if err != nil {
		return nil, err
	}
	value := strconv.FormatInt(id, 16)
	h := &lease{keeper: k, id: id, key: k.prefix + value, after: k.run.record.Revision()}
	h.claim = claim{at: k.run.env.Now(), until: sent + ttl}
	if err := lessor.Attach(obtaining, id, h.key, value); err != nil {
		revoking, cancel := context.WithTimeout(ctx, revokeTimeout)
		defer cancel()
		_ = lessor.Revoke(revoking, id) // the lease ends by itself if this fails
		return nil, err
	}
	return h, nil
}

// record records what has just happened.
func (k *keeper) record(happened func(*report.Recording)) {
	k.run.mu.Lock()
	defer k.run.mu.Unlock()
	happened(&k.run.rec)
}

// lease is a lease that a keeper holds.
type lease struct {
	keeper *keeper
	id     int64
	key    string
	after  int64 // a revision that the key is younger than
	claim  claim // the latest; guarded by run.mu
}

// claim is a claim of the client about a lease.
type claim struct {
	// at is when the keeper received it: an answer to a keepalive arrived, or the grant.
	at time.Duration
	// until is until when the lease is claimed to live. After the grant that is a TTL
	// from its sending.
	until time.Duration
}

// keep keeps the lease alive until it is lost or ctx ends.
func (h *lease) keep(ctx context.Context) {
	keeping, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	renewals := h.keeper.run.conn.Lessor.KeepAlive(keeping, h.id)
	var guarding sync.WaitGroup
	guarding.Go(func() {
		if h.awaitEnd(keeping) {
			lose(errKeyGone)
		}
	})
	reason := h.renew(renewals)
	cause := context.Cause(keeping)
	switch {
	case cause == nil:
		h.keeper.record(func(r *report.Recording) { r.LeaseLost("keepalive ended", reason) })
	case errors.Is(cause, errKeyGone):
		h.keeper.record(func(r *report.Recording) { r.LeaseLost("key gone", nil) })
	}
	lose(nil)
	guarding.Wait()
	if left := h.claim.until - h.keeper.run.env.Now(); left > 0 && cause == nil {
		h.keeper.work.Go(func() { // the client ended the keepalive of a lease that it still claims to live
			claimed, cancel := context.WithTimeout(ctx, left)
			defer cancel()
			h.awaitEnd(claimed)
		})
	}
}

// renew records each renewal and returns why there are no more.
func (h *lease) renew(renewals iter.Seq2[time.Time, error]) (reason error) {
	for until, err := range renewals {
		if err != nil {
			return err
		}
		now := h.keeper.run.env.Now()
		left := time.Until(until) // measured after now, so that the claim is never made longer
		h.keeper.run.env.Counts.Add("leases", "claims", 1)
		h.keeper.record(func(*report.Recording) { h.claim = claim{at: now, until: now + left} })
	}
	return nil
}

// awaitEnd returns when the key is gone, or when ctx ends, and compares its end with what the client claims then.
func (h *lease) awaitEnd(ctx context.Context) (gone bool) {
	r := h.keeper.run
	if r.record.AwaitDeletion(ctx, h.key, h.after) != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.env.Now(); now < h.claim.until {
		r.rep.Add(LeaseEndedEarly, "%s of lease %x was gone at %s, and the client claimed at %s that the lease lives until %s",
			h.key, h.id, at(now), at(h.claim.at), at(h.claim.until))
	}
	return true
}
