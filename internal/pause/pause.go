// Package pause waits.
package pause

import (
	"context"
	"time"
)

// For returns nil after d, and the error of ctx if that has ended by then.
func For(ctx context.Context, d time.Duration) error { return Until(ctx, nil, d) }

// Until returns nil when wake is closed or has a value, after d at the latest, and the error of ctx
// if that has ended by then.
func Until(ctx context.Context, wake <-chan struct{}, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err()
}
