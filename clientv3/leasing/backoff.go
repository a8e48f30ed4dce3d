package leasing

import (
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/retry"
)

// pauses is the backoff between attempts, with full jitter.
var pauses = retry.Policy{InitialBackoff: 50 * time.Millisecond, MaxBackoff: 2 * time.Second}

// permanent reports whether a repeated call would fail with the same error.
func permanent(err error) bool {
	switch retry.CodeOf(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return true
	default:
		return false
	}
}
