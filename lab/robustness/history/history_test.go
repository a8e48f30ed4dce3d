package history_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/retry"
)

func TestOutcomeOf(t *testing.T) {
	unknown := &retry.UnknownOutcomeError{Method: "/etcdserverpb.KV/Put", Err: status.Error(codes.Unavailable, "reset")}
	for err, want := range map[error]history.Outcome{
		nil:                            history.OK,
		unknown:                        history.Unknown,
		fmt.Errorf("put: %w", unknown): history.Unknown,
		context.DeadlineExceeded:       history.Unknown,
		context.Canceled:               history.Unknown,
		errors.New("boom"):             history.Unknown,
		status.Error(codes.InvalidArgument, "etcdserver: key is not provided"): history.Failed,
	} {
		assert.Equal(t, want, history.OutcomeOf(true, err), err)
		assert.Equal(t, err == nil, history.OutcomeOf(false, err) == history.OK, err)
		assert.NotEqual(t, history.Unknown, history.OutcomeOf(false, err), err)
	}
}
