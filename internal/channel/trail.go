package channel

import (
	"context"
	"sync/atomic"
)

// Trail collects what happened on the way of one call, for a caller that must
// know more than its result. See [WithTrail].
type Trail struct{ ambiguous atomic.Bool }

// Ambiguous reports whether an attempt before the last one may have been
// executed. The last one's result alone does not tell: a LeaseRevoke that was
// repeated after a broken connection finds the lease gone.
func (t *Trail) Ambiguous() bool { return t.ambiguous.Load() }

type trailKey struct{}

// WithTrail returns a context whose call records its way in the Trail.
func WithTrail(ctx context.Context) (context.Context, *Trail) {
	t := new(Trail)
	return context.WithValue(ctx, trailKey{}, t), t
}

func markAmbiguous(ctx context.Context) {
	if t, ok := ctx.Value(trailKey{}).(*Trail); ok {
		t.ambiguous.Store(true)
	}
}
