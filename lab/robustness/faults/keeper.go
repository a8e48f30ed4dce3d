package faults

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// regrantPause is how long a keeper waits when it has lost its lease, or did not
// get one, before it asks for another.
const regrantPause = 100 * time.Millisecond

// lease is a lease that a keeper got, with what the client claimed of it.
type lease struct {
	id     int64
	key    string // attached to this lease alone
	claims []claim
	lost   time.Duration // when the client ended the keepalive, 0 if it did not
}

// claim is a claim of the client about a lease.
type claim struct {
	// at is when the keeper received it: an answer to a keepalive arrived, or the grant.
	at time.Duration
	// until is until when the lease is claimed to live. After the grant that is a TTL
	// from its sending.
	until time.Duration
}

// keeper holds one lease after the other, with a key attached.
type keeper struct {
	run    *run
	index  int
	leases []*lease
}

// work holds leases until ctx ends.
func (k *keeper) work(ctx context.Context) {
	for ctx.Err() == nil {
		if err := fatal.Catch(func() { k.hold(ctx) }); err != nil && ctx.Err() == nil {
			k.run.env.Counts.Add("leases", "not granted: "+retry.CodeOf(err).String(), 1)
		}
		_ = pause.For(ctx, regrantPause)
	}
}

// hold gets a lease, attaches a key to it, and keeps it alive. The keys are not below the prefix of the callers' keys, which are
// never deleted, and no other lease has the same one: a late attachment cannot take over the key of the next lease. An error before
// it is kept ends it, see package fatal.
func (k *keeper) hold(ctx context.Context) {
	r := k.run
	obtaining, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	sent := r.env.Now()
	id, ttl, err := r.conn.Lessor.Grant(obtaining, r.cfg.LeaseTTL)
	fatal.If(err)
	value := strconv.FormatInt(id, 16)
	held := &lease{id: id, key: fmt.Sprintf("/quorate-lab-leases/%016x/%d/%s", r.cfg.Seed, k.index, value), claims: []claim{{r.env.Now(), sent + ttl}}}
	fatal.If(r.conn.Lessor.Attach(obtaining, id, held.key, value))
	k.leases = append(k.leases, held)
	keeping, cancel := context.WithCancel(ctx)
	defer cancel()
	for until, err := range r.conn.Lessor.KeepAlive(keeping, id) {
		if err != nil {
			break
		}
		now := r.env.Now()
		left := time.Until(until) // measured after now, so that the claim is never made longer
		held.claims = append(held.claims, claim{now, now + left})
	}
	if ctx.Err() == nil {
		held.lost = r.env.Now()
	}
}
