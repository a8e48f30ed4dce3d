package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestUnknownOutcomeErrorHasTheStatusOfItsCause(t *testing.T) {
	detailed, err := status.New(codes.Unavailable, "m").WithDetails(status.New(codes.Aborted, "detail").Proto())
	require.NoError(t, err)
	for _, tc := range []struct {
		cause   error
		code    codes.Code
		message string
	}{
		{status.Error(codes.Unavailable, "connection reset"), codes.Unavailable, "connection reset"},
		{fmt.Errorf("put: %w", status.Error(codes.Unavailable, "connection reset")), codes.Unavailable, "connection reset"},
		{rpctypes.ErrGRPCTimeout, codes.Unavailable, "etcdserver: request timed out"},
		{rpctypes.ErrTimeout, codes.Unavailable, "etcdserver: request timed out"},
		{context.DeadlineExceeded, codes.DeadlineExceeded, "context deadline exceeded"},
		{context.Canceled, codes.Canceled, "context canceled"},
		{io.EOF, codes.Unknown, "EOF"},
		{statusOKError{}, codes.Unknown, "contradiction"},
		{detailed.Err(), codes.Unavailable, "m"},
	} {
		err := error(&UnknownOutcomeError{Method: "/etcdserverpb.KV/Put", Err: tc.cause})
		assert.Equal(t, tc.code, status.Code(err), "%v", tc.cause)
		assert.Equal(t, tc.message, rpctypes.ErrorDesc(err), "%v", tc.cause)
		s, ok := status.FromError(err)
		require.True(t, ok)
		assert.Equal(t, tc.message, s.Message())
		assert.Len(t, s.Details(), len(status.Convert(tc.cause).Details()))
		assert.ErrorIs(t, err, tc.cause)
	}
}

func TestUnknownOutcomeErrorText(t *testing.T) {
	err := &UnknownOutcomeError{Method: "/etcdserverpb.KV/Put", Err: rpctypes.ErrTimeout}
	for _, part := range []string{"unknown", "/etcdserverpb.KV/Put", "do not repeat it blindly", "etcdserver: request timed out"} {
		require.ErrorContains(t, err, part)
	}
	var etcdErr rpctypes.EtcdError
	require.ErrorAs(t, fmt.Errorf("put: %w", err), &etcdErr)
	assert.Equal(t, rpctypes.ErrTimeout, etcdErr)
}

func TestUnknownOutcomeErrorWithoutCause(t *testing.T) {
	for _, err := range []*UnknownOutcomeError{nil, {}, {Method: "/a.B/C"}} {
		assert.NotEmpty(t, err.Error())
		require.NoError(t, errors.Unwrap(err))
		assert.Equal(t, codes.Unknown, err.GRPCStatus().Code())
	}
}

func TestOutcomeOf(t *testing.T) {
	unavailable := status.Error(codes.Unavailable, "connection reset")
	for _, tc := range []struct {
		name         string
		err          error
		sent, unsent Outcome
	}{
		{"success", nil, OutcomeExecuted, OutcomeExecuted},
		{"refused for good", rpctypes.ErrGRPCCompacted, OutcomeNotExecuted, OutcomeNotExecuted},
		{"client side", rpctypes.ErrLeaseNotFound, OutcomeNotExecuted, OutcomeNotExecuted},
		{"wrapped", fmt.Errorf("put: %w", rpctypes.ErrLeaseNotFound), OutcomeNotExecuted, OutcomeNotExecuted},
		{"refused by a member", rpctypes.ErrNoLeader, OutcomeNotExecuted, OutcomeNotExecuted},
		{"overloaded", rpctypes.ErrTooManyRequests, OutcomeNotExecuted, OutcomeNotExecuted},
		{"token", rpctypes.ErrInvalidAuthToken, OutcomeNotExecuted, OutcomeNotExecuted},
		{"space", rpctypes.ErrNoSpace, OutcomeUnknown, OutcomeNotExecuted},
		{"timeout", rpctypes.ErrTimeout, OutcomeUnknown, OutcomeNotExecuted},
		{"connection", unavailable, OutcomeUnknown, OutcomeNotExecuted},
		{"context", context.DeadlineExceeded, OutcomeUnknown, OutcomeNotExecuted},
		{"closed", status.Error(codes.Canceled, "grpc: the client connection is closing"), OutcomeUnknown, OutcomeNotExecuted},
		{"plain", io.EOF, OutcomeUnknown, OutcomeNotExecuted},
		{"typed", &UnknownOutcomeError{Err: unavailable}, OutcomeUnknown, OutcomeUnknown},
		{"typed with a definite cause", fmt.Errorf("put: %w", &UnknownOutcomeError{Err: rpctypes.ErrCompacted}), OutcomeUnknown, OutcomeUnknown},
		{"typed, of a lost response", &UnknownOutcomeError{Err: errors.Join(io.EOF, &ResponseLostError{Revision: 7})}, OutcomeUnknown, OutcomeUnknown},
		{"not executed", &NotSentError{Err: rpctypes.ErrNoSpace}, OutcomeNotExecuted, OutcomeNotExecuted},
		{"response lost", fmt.Errorf("put: %w", &ResponseLostError{Revision: 7, Err: rpctypes.ErrCompacted}), OutcomeExecuted, OutcomeExecuted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.sent, OutcomeOf(tc.err))
			for _, ended := range []error{nil, context.Canceled} {
				assert.Equal(t, tc.sent, OutcomeOfAttempt(tc.err, Evidence{Sent: true, ContextErr: ended}))
				assert.Equal(t, tc.unsent, OutcomeOfAttempt(tc.err, Evidence{ContextErr: ended}))
			}
		})
	}
}
