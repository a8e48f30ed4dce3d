// Package staleness has the context value that allows package cache to answer gets with an older state.
package staleness

import "context"

// Key is the key of that value, which package cache sets.
type Key struct{}

// Linearizable returns ctx without the value, for linearizable gets.
func Linearizable(ctx context.Context) context.Context { return context.WithValue(ctx, Key{}, nil) }
