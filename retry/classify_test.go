package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestClassifyServerErrors(t *testing.T) {
	for _, r := range ServerErrors() {
		t.Run(r.Message, func(t *testing.T) {
			raw := status.Error(r.Code, r.Message)
			for name, err := range map[string]error{
				"status":       raw,
				"wrapped":      fmt.Errorf("while testing: %w", raw),
				"without code": status.Error(codes.Unknown, r.Message),
				"client side":  rpctypes.Error(raw),
				"joined":       errors.Join(io.EOF, rpctypes.Error(raw)),
			} {
				assert.Equal(t, r.Class, Classify(err, Evidence{Sent: true}), name)
				assert.Equal(t, r.Class, Classify(err, Evidence{Sent: true, Method: pb.KV_Put_FullMethodName}), name)
				assert.Equal(t, r.Class, Classify(err, Evidence{}), "the text proves that a server spoke: %s", name)
			}
		})
	}
}

type statusOKError struct{}

func (statusOKError) Error() string              { return "contradiction" }
func (statusOKError) GRPCStatus() *status.Status { return nil }

func TestClassifyOtherErrors(t *testing.T) {
	unknown := &UnknownOutcomeError{Method: "/a.B/C", Err: rpctypes.ErrCompacted}
	for _, tc := range []struct {
		name         string
		err          error
		sent, unsent Class
	}{
		{"success", nil, OK, OK},
		{"canceled", context.Canceled, Ambiguous, NotSent},
		{"deadline, wrapped", fmt.Errorf("dial: %w", context.DeadlineExceeded), Ambiguous, NotSent},
		{"plain", io.EOF, Ambiguous, Definite},
		{"status OK", statusOKError{}, Ambiguous, Definite},
		{"a code that gRPC does not define", status.Error(99, "some text"), Ambiguous, Definite},
		{"etcd's text behind another", status.Error(codes.Unavailable, "proxy: etcdserver: no leader"), Ambiguous, NotSent},
		{"etcd's text before another", status.Error(codes.Unavailable, "etcdserver: no leader."), Ambiguous, NotSent},
		{"etcd's text with another code", status.Error(codes.Internal, "etcdserver: no leader"), Ambiguous, Definite},
		{"etcd's denial with another code", status.Error(codes.Internal, "etcdserver: permission denied"), Ambiguous, Definite},
		{"unknown outcome", unknown, Ambiguous, Ambiguous},
		{"unknown outcome, wrapped", fmt.Errorf("put: %w", unknown), Ambiguous, Ambiguous},
		{"response lost", &ResponseLostError{Revision: 7, Err: rpctypes.ErrCompacted}, Executed, Executed},
		{"not executed", &NotSentError{Err: rpctypes.ErrNoSpace}, NotSent, NotSent},
		{"unknown outcome, nil", (*UnknownOutcomeError)(nil), Ambiguous, Ambiguous},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.sent, Classify(tc.err, Evidence{Sent: true}))
			assert.Equal(t, tc.unsent, Classify(tc.err, Evidence{}))
		})
	}
}

func TestClassifyEndedContext(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want Class
	}{
		{nil, OK},
		{context.Canceled, Ended},
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), Ended},
		{status.Error(codes.Unavailable, "connection refused"), Ended},
		{rpctypes.ErrGRPCTimeout, Ended},
		{rpctypes.ErrGRPCNoLeader, Ended},
		{rpctypes.ErrGRPCInvalidAuthToken, Ended},
		{rpctypes.ErrGRPCCompacted, Definite},
		{status.Error(codes.InvalidArgument, "some text"), Definite},
		{rpctypes.ErrGRPCNoSpace, Executed},
		{status.Error(codes.Canceled, "grpc: the client connection is closing"), Closed},
	} {
		for _, sent := range []bool{true, false} {
			got := Classify(tc.err, Evidence{Sent: sent, ContextErr: context.Canceled})
			assert.Equal(t, tc.want, got, "%v, sent %v", tc.err, sent)
		}
	}
}

func TestCodeOf(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want codes.Code
	}{
		{nil, codes.OK},
		{rpctypes.ErrGRPCTimeout, codes.Unavailable},
		{rpctypes.ErrTimeout, codes.Unavailable},
		{status.Error(codes.Unknown, "etcdserver: request timed out"), codes.Unavailable},
		{status.Error(codes.Unknown, "raft: stopped"), codes.Unavailable},
		{status.Error(codes.Internal, "etcdserver: request timed out"), codes.Internal},
		{fmt.Errorf("get: %w", status.Error(codes.Aborted, "some text")), codes.Aborted},
		{&UnknownOutcomeError{Err: rpctypes.ErrTimeout}, codes.Unavailable},
		{context.Canceled, codes.Canceled},
		{io.EOF, codes.Unknown},
	} {
		assert.Equal(t, tc.want, CodeOf(tc.err), "%v", tc.err)
	}
}

func TestClassifySuccessDoesNotAllocate(t *testing.T) {
	ev := Evidence{Sent: true, Method: pb.KV_Put_FullMethodName}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if Decide(Classify(nil, ev), SafetyOf(pb.KV_Range_FullMethodName, nil)) != Return {
			panic("a success is not returned")
		}
	}))
}

func FuzzClassify(f *testing.F) {
	f.Add(uint32(14), "etcdserver: no leader", true, false, "")
	f.Add(uint32(8), "trying to send message larger than max (2 vs. 1)", false, true, "/etcdserverpb.KV/Put")
	f.Fuzz(func(t *testing.T, code uint32, text string, sent, ended bool, method string) {
		ev := Evidence{Sent: sent, Method: method}
		if ended {
			ev.ContextErr = context.Canceled
		}
		err := status.Error(codes.Code(code), text)
		class := Classify(err, ev)
		if (class == OK) != (err == nil) {
			t.Fatalf("%v is %v", err, class)
		}
		if class == NotSent && sent {
			t.Fatalf("%v was sent, and is %v", err, class)
		}
		if Decide(class, Mutating) == Again && OutcomeOfAttempt(err, ev) != OutcomeNotExecuted {
			t.Fatalf("%v would be sent again although it may have been executed", err)
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func TestErrorsWithoutCause(t *testing.T) {
	for _, err := range []error{(*UnknownOutcomeError)(nil), &UnknownOutcomeError{}, &UnknownOutcomeError{Method: "/a.B/C"}, &NotSentError{}} {
		assert.NotEmpty(t, err.Error())
		require.NoError(t, errors.Unwrap(err))
		assert.Equal(t, codes.Unknown, status.Code(err))
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
