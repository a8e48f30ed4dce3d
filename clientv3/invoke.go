package clientv3

import (
	"context"

	"google.golang.org/grpc"
)

// unary is a method of one of the protobuf clients.
type unary[Req, Resp any] func(context.Context, *Req, ...grpc.CallOption) (*Resp, error)

// invoke calls method. Its error is the one that the API documents, and its
// response is nil if the error is not.
func invoke[Req, Resp any](
	ctx context.Context, method unary[Req, Resp], req *Req, opts []grpc.CallOption,
) (*Resp, error) {
	resp, err := method(ctx, req, opts...)
	if err != nil {
		return nil, ContextError(ctx, err)
	}
	return resp, nil
}

// callOptsOf returns the options that the client's calls carry; constructors
// accept a nil client.
func callOptsOf(c *Client) []grpc.CallOption {
	if c == nil {
		return nil
	}
	return c.callOpts
}
