package quorate

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/retry"
)

// attempt is an attempt of a call, or a stream, that the policy can cut. It stands for the attempt that
// the caller may have put into the context.
type attempt struct {
	balancer.Attempt
	caller  context.Context
	ctx     context.Context // ends with the caller's, and when the attempt is cut
	cancel  context.CancelCauseFunc
	overdue func(*attempt) // nil for none
}

var _ balancer.Watcher = (*attempt)(nil)

func (a *attempt) start(ctx context.Context) {
	a.StandFor(balancer.AttemptFrom(ctx))
	a.Watcher, a.caller = a, ctx
	a.ctx, a.cancel = context.WithCancelCause(ctx)
}

// Overdue implements balancer.Watcher.
func (a *attempt) Overdue() {
	if a.overdue != nil {
		a.overdue(a)
	}
}

// Cut implements balancer.Watcher.
func (a *attempt) Cut(reason error) { a.cancel(reason) }

// cutReason returns why an attempt that ended with err was cut, as its caller sees it: gRPC's own error looks
// as if the caller had canceled it. It is nil for an attempt that was not cut, or that ended before. The reasons
// of the policy have a status; those of package hedge have none.
func (a *attempt) cutReason(err error) error {
	reason := context.Cause(a.ctx)
	if retry.CodeOf(err) == codes.Canceled && a.caller.Err() == nil && status.Code(reason) != codes.Unknown {
		return reason
	}
	return nil
}

// isLost reports whether another endpoint may answer what this one did not.
func (a *attempt) isLost(err error) bool {
	return context.Cause(a.ctx) != nil || status.Code(err) == codes.Unavailable
}

// stream is an open stream that the policy checks for silence. Its owner opens it again when it was cut.
type stream struct {
	grpc.ClientStream
	attempt
	desc  *grpc.StreamDesc
	heard atomic.Bool
}

// openStream opens a stream that ends with codes.Unavailable when its backend can no longer serve it.
func openStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (_ grpc.ClientStream, err error) {
	s := &stream{desc: desc}
	s.start(ctx)
	s.Stream, s.Watcher = true, s
	s.ClientStream, err = open(balancer.WithAttempt(s.ctx, &s.Attempt), desc, cc, method, opts...)
	if err = s.release(err, err != nil); err != nil {
		return nil, err
	}
	return s, nil
}

// release ends the context of the stream once its owner need not use it any longer, by the rules of grpc.ClientConn.NewStream. It
// does not end with what gRPC has opened, because an interceptor may open that again. After Close it ends with its parent.
// release returns the error as the owner sees it.
func (s *stream) release(err error, over bool) error {
	if over {
		s.cancel(nil)
	}
	return cmp.Or(s.cutReason(err), err)
}

func (s *stream) Header() (metadata.MD, error) {
	header, err := s.ClientStream.Header()
	return header, s.release(err, err != nil && !errors.Is(err, io.EOF))
}

func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.heard.Store(true)
		s.Heard()
	}
	return s.release(err, err != nil || !s.desc.ServerStreams)
}

func (s *stream) SendMsg(m any) error {
	s.Sending()
	defer s.Sent()
	err := s.ClientStream.SendMsg(m)
	return s.release(err, err != nil && !errors.Is(err, io.EOF))
}

// retryWait is how long a stream that has received nothing is left to gRPC, which may open it again by a
// retryPolicy when its connection is closed.
const retryWait = 500 * time.Millisecond

// Cut implements balancer.Watcher.
func (s *stream) Cut(reason error) {
	if s.heard.Load() {
		s.cancel(reason)
		return
	}
	opened := s.Opened()
	time.AfterFunc(retryWait, func() {
		if s.Opened() == opened {
			s.cancel(reason)
		}
	})
}
