package pools

import (
	"context"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/pool/grpcpool"
)

// channel is a way to reach a server.
type channel interface {
	grpc.ClientConnInterface
	Close() error
}

type dialer struct {
	name string
	dial func(address string) (channel, error)
}

func oneConnection() dialer { return inTurn(1) }

// inTurn is a number of connections that calls go to in turn, whatever they are.
func inTurn(n int) dialer {
	name := fmt.Sprintf("%d-in-turn", n)
	if n == 1 {
		name = "one-connection"
	}
	return dialer{name, func(address string) (channel, error) {
		r := new(rotation)
		for range n {
			cc, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return nil, err
			}
			r.conns = append(r.conns, cc)
		}
		return r, nil
	}}
}

type rotation struct {
	conns []*grpc.ClientConn
	next  atomic.Uint64
}

func (r *rotation) pick() *grpc.ClientConn {
	return r.conns[r.next.Add(1)%uint64(len(r.conns))]
}

func (r *rotation) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return r.pick().Invoke(ctx, method, args, reply, opts...)
}

func (r *rotation) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return r.pick().NewStream(ctx, desc, method, opts...)
}

func (r *rotation) Close() error {
	for _, cc := range r.conns {
		cc.Close()
	}
	return nil
}

// pooled is the pool as it is without any configuration.
func pooled() dialer {
	return dialer{"grpcpool", func(address string) (channel, error) {
		return grpcpool.NewClient("passthrough:///"+address, grpcpool.Config{TransportCredentials: insecure.NewCredentials()})
	}}
}
