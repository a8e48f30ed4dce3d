package cache

import (
	"context"
	"time"

	"github.com/quorate/quorate/clientv3/internal/staleness"
)

// bound is how old an answer may be.
type bound struct {
	stale time.Duration // 0: any age
	rev   int64         // 0: any revision
}

func boundOf(ctx context.Context) bound {
	b, _ := ctx.Value(staleness.Key{}).(bound)
	return b
}

// WithMaxStaleness returns a context whose gets through a [Cache] need not be linearizable: an answer
// has every write that was acknowledged earlier than d before the get began, on this process's
// monotonic clock. Nothing is asked of the cluster while the cache knows that it is fresh enough; d
// bounds how often that has to be proven, to once in d at most. For keys outside of the cache, one
// linearizable count in d serves all gets, which go to any member, the nearest for instance
// (clientv3.Config.Balancer); one that has not come far enough costs a second, linearizable get.
//
// It has no effect with a d of 0 or less, on gets with clientv3.WithSerializable or clientv3.WithRev,
// and on operations other than gets.
func WithMaxStaleness(ctx context.Context, d time.Duration) context.Context {
	b := boundOf(ctx)
	b.stale = max(d, 0)
	return context.WithValue(ctx, staleness.Key{}, b)
}

// NotOlderThan returns a context whose gets through a [Cache] need not be linearizable: an answer shows
// the store at rev or later. With the revision in the header of a write, its writer and any program
// that receives the revision read that write. Beside [WithMaxStaleness] both hold. A revision that the
// store has not reached within [Config.MaxWait] gives rpctypes.ErrFutureRev. The same exceptions hold as
// for WithMaxStaleness.
func NotOlderThan(ctx context.Context, rev int64) context.Context {
	b := boundOf(ctx)
	b.rev = max(b.rev, rev)
	return context.WithValue(ctx, staleness.Key{}, b)
}
