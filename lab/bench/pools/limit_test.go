package pools

import (
	"context"
	"time"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

const callers = 256

func throughput() []string { return []string{"calls/s", "p50-ms", "p99-ms", "conns"} }

// limited: the server's stream limit is the bound. The pool is to make 2.2 times as many calls as one connection.
func limited() measurement {
	c := measurement{
		name:    "limit",
		about:   "256 callers of a method that takes 20 ms, a server with MaxConcurrentStreams(100)",
		metrics: throughput(), length: 2 * time.Second,
	}
	for _, d := range []dialer{oneConnection(), inTurn(2), inTurn(4), pooled()} {
		c.contenders = append(c.contenders, calling(d, server{takes: 20 * time.Millisecond}, grpc.MaxConcurrentStreams(100)))
	}
	return c
}

// unlimited: nothing is the bound but the machine, which shows what the pool costs.
func unlimited() measurement {
	c := measurement{
		name:    "nolimit",
		about:   "256 callers of a method that takes no time, a server without limit",
		metrics: throughput(), length: 2 * time.Second,
	}
	for _, d := range []dialer{oneConnection(), inTurn(2), inTurn(4), pooled()} {
		c.contenders = append(c.contenders, calling(d, server{}))
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
		return []float64{seen.perSecond, 1e3 * seen.p50, 1e3 * seen.p99, float64(conn.connections())}, err
	}}
}
