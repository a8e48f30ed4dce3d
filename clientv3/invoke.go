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

// orNone returns c, or a client that has nothing: constructors of services accept a nil client.
func orNone(c *Client) *Client {
	if c == nil {
		return new(Client)
	}
	return c
}
