package lease

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The state of a lease outlives its last subscriber for as long as the lease certainly lives.
func TestLeaseIsRemembered(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after func(r *rig)
		known bool
	}{
		{"Once", func(r *rig) {
			r.once(1)
			r.take()
			r.answer(1, ttl)
		}, true},
		{"the keeper left", func(r *rig) { r.leave(r.renewed(1), context.Canceled) }, true},
		{"the keeper left before an answer", func(r *rig) {
			r.m.Granted(r.now, r.now, 1, int64(ttl/time.Second))
			p := r.keep(1)
			r.take()
			r.leave(p, context.Canceled)
			r.answer(1, ttl)
		}, true},
		{"lease not found", func(r *rig) {
			r.renewed(1)
			r.pass(ttl / 3)
			r.take()
			r.answer(1, 0)
		}, false},
		{"revoked", func(r *rig) {
			r.renewed(1)
			r.m.Revoked(r.now, 1)
		}, false},
		{"revoked later", func(r *rig) {
			r.leave(r.renewed(1), context.Canceled)
			r.m.Revoked(r.now, 1)
		}, false},
		{"revoked with a request unanswered", func(r *rig) {
			r.renewed(1)
			r.pass(ttl / 3)
			r.take()
			r.m.Revoked(r.now, 1)
			r.answer(1, ttl)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.connect()
			tt.after(r)
			require.Equal(t, Gone, r.state(1))
			until := r.epoch.Add(ttl)
			r.pass(time.Second)
			p := r.keep(1)
			if !tt.known {
				require.Zero(t, p.validUntil)
				require.Equal(t, r.m.now.add(firstAnswer), r.m.leases[1].deadline)
				return
			}
			require.Equal(t, until, p.validUntil)
			require.Equal(t, instant(ttl), r.m.leases[1].deadline)
		})
	}
}

// A lost stream keeps no reference to a lease that is gone.
func TestLostStreamForgetsItsLeases(t *testing.T) {
	r := newRig(t)
	p := r.keep(1)
	r.connect()
	r.take()
	r.m.Lost(r.now, errBroken)
	require.NotNil(t, r.m.oldest)
	r.leave(p, context.Canceled)
	require.Nil(t, r.m.oldest)

	r.keep(2)
	r.connect()
	r.take()
	r.m.Lost(r.now, errBroken)
	r.connect()
	require.Nil(t, r.m.oldest, "the earlier stream suspects no lease")
}
