package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
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
