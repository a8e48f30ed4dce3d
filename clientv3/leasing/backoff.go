package leasing

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The pauses between attempts: a random time of up to firstPause, then of up to
// twice as long each time, and never of more than longestPause.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// backoff makes pauses between attempts. Its zero value begins with the shortest.
type backoff struct{ limit time.Duration }

// wait pauses. The error is that of ctx.
func (b *backoff) wait(ctx context.Context) error {
	b.limit = min(max(2*b.limit, firstPause), longestPause)
	timer := time.NewTimer(rand.N(b.limit))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// permanent reports whether an error would come again however often the call were
// repeated.
func permanent(err error) bool {
	code := status.Code(err)
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		code = known.Code()
	}
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return true
	default:
		return false
	}
}
