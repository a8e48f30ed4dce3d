package clientv3

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// This file adapts the services to a protobuf client supplied by the program, such
// as a mock written for the official client: it receives only the calls that
// callers make, in the official client's order.

// isHalt reports whether err ends a stream for good in the official client.
func isHalt(err error) bool {
	code := status.Code(err)
	return code != codes.Unavailable && code != codes.Internal
}

// errNoMessage is the error of a stream call that returns neither a result nor an
// error.
var errNoMessage = status.Error(codes.Unavailable, "etcdclient: the program's client returned neither a message nor an error")

// openForeign opens a stream over a program's client.
func openForeign[Req, Resp any](
	ctx context.Context, opts []grpc.CallOption,
	open func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[Req, Resp], error),
) (grpc.BidiStreamingClient[Req, Resp], error) {
	stream, err := open(ctx, opts...)
	if err != nil {
		return nil, err
	}
	if stream == nil {
		return nil, errNoMessage
	}
	return &foreignStream[Req, Resp]{stream, ctx}, nil
}

// foreignStream is a stream of a program's client.
type foreignStream[Req, Resp any] struct {
	grpc.BidiStreamingClient[Req, Resp]
	ctx context.Context // that it was opened with
}

// Recv returns the next message. It returns when the context ends, even if the
// program's Recv does not; that Recv keeps its goroutine until it returns.
func (s *foreignStream[Req, Resp]) Recv() (*Resp, error) {
	type result struct {
		resp *Resp
		err  error
	}
	done := make(chan result, 1)
	go func() {
		resp, err := s.BidiStreamingClient.Recv()
		done <- result{resp, err}
	}()
	select {
	case r := <-done:
		if r.err == nil && r.resp == nil {
			return nil, errNoMessage
		}
		return r.resp, r.err
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}
