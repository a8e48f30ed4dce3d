// Package staleness has what a context says of the age of answers of package cache.
package staleness

import "context"

// Key is the key of a context's value.
type Key struct{}

// Linearizable returns ctx for linearizable gets, and whether gets with ctx itself need not be that.
func Linearizable(ctx context.Context) (linearizable context.Context, stale bool) {
	if ctx.Value(Key{}) == nil {
		return ctx, false
	}
	return context.WithValue(ctx, Key{}, nil), true
}
