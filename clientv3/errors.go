package clientv3

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/retry"
)

// ContextError converts the error of a call made with ctx into the error that the
// API returns:
//
//   - a *retry.UnknownOutcomeError is unchanged, whatever its cause;
//   - a known error of the server becomes the rpctypes.EtcdError, comparable with
//     ==;
//   - a cancelled call, or one past its deadline, becomes ctx.Err() if ctx ended;
//   - everything else, nil included, is unchanged.
func ContextError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, unknown := errors.AsType[*retry.UnknownOutcomeError](err); unknown {
		return err
	}
	err = rpctypes.Error(err)
	if isServerError(err) {
		return err
	}
	s, ok := status.FromError(err)
	ended := ok && (s.Code() == codes.Canceled || s.Code() == codes.DeadlineExceeded)
	if ended && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// isServerError reports whether err, a result of rpctypes.Error, is a known error
// of the server.
func isServerError(err error) bool {
	_, known := errors.AsType[rpctypes.EtcdError](err)
	return known
}

// IsConnCanceled reports whether err comes from a client or connection that was
// closed. A call that its own caller cancelled looks the same.
func IsConnCanceled(err error) bool {
	if err == nil {
		return false
	}
	if s, ok := status.FromError(err); ok {
		return s.Code() == codes.Canceled || s.Message() == "transport is closing"
	}
	return errors.Is(err, context.Canceled) ||
		strings.Contains(err.Error(), "grpc: the client connection is closing")
}
