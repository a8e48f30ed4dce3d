package pools

import (
	"context"
	"time"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

const callers = 256

// throughput has callers call a server over one connection, several in turn, and the pool.
func throughput(name string, s server, opts ...grpc.ServerOption) measurement {
	c := measurement{name: name, metrics: []string{"calls/s", "p99-ms"}, length: 2 * time.Second}
	for _, d := range []dialer{oneConnection(), inTurn(2), inTurn(4), pooled()} {
		c.contenders = append(c.contenders, calling(d, s, opts...))
	}
	return c
}

func calling(d dialer, s server, opts ...grpc.ServerOption) contender {
	return contender{name: d.name, sample: func(ctx context.Context, length time.Duration) ([]float64, error) {
		address, stop, err := serve(s, opts...)
		if err != nil {
			return nil, err
		}
		defer stop()
		conn, err := d.dial(address)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		seen, err := smallCalls(ctx, pb.NewTestServiceClient(conn), callers, length)
		return []float64{seen.perSecond, 1e3 * seen.p99}, err
	}}
}
