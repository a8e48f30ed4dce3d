package pools

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// traffic is what callers have seen.
type traffic struct {
	perSecond float64
	p99       float64 // seconds
}

// smallCalls has n callers make small calls, one after the other, for a time. What they see
// before the connections are there, in the first tenth of it, does not count.
func smallCalls(ctx context.Context, client pb.TestServiceClient, n int, d time.Duration) (traffic, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 100)}}
	begin := time.Now()
	counts, end := begin.Add(d/10), begin.Add(d)
	var all sync.WaitGroup
	took := make([][]time.Duration, n)
	for i := range n {
		all.Go(func() {
			for {
				called := time.Now()
				if called.After(end) || ctx.Err() != nil {
					return
				}
				if _, err := client.UnaryCall(ctx, request); err != nil {
					cancel(err)
					return
				}
				if called.After(counts) {
					took[i] = append(took[i], time.Since(called))
				}
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return traffic{}, err
	}
	sorted := slices.Sorted(slices.Values(slices.Concat(took...)))
	if len(sorted) == 0 {
		return traffic{}, nil
	}
	return traffic{float64(len(sorted)) / time.Since(counts).Seconds(), sorted[len(sorted)*99/100].Seconds()}, nil
}

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

const (
	bulkStreams = 4 // of 4 MB messages, one after the other
	smallUsers  = 4
)

// stream is one that moves large messages until its context ends.
type stream func(ctx context.Context, client pb.TestServiceClient) error

// mixed compares small unary calls beside 4 streams of 4 MB messages, which fill a link of 60 MB/s and 2 ms, with those on an
// idle link. Over the pool they are to take twice as long at most.
func mixed(name string, large stream) measurement {
	c := measurement{name: name, metrics: []string{"p99-ms"}, length: 2 * time.Second}
	idle := oneConnection()
	idle.name = "idle-link"
	c.contenders = []contender{beside(idle, nil)}
	for _, d := range []dialer{oneConnection(), inTurn(2), inTurn(4), pooled()} {
		c.contenders = append(c.contenders, beside(d, large))
	}
	return c
}

// beside measures small calls beside large streams; without any if large is nil.
func beside(d dialer, large stream) contender {
	return contender{name: d.name, sample: func(ctx context.Context, length time.Duration) ([]float64, error) {
		address, stop, err := serve(server{})
		if err != nil {
			return nil, err
		}
		defer stop()
		link, err := newWire(address)
		if err != nil {
			return nil, err
		}
		defer link.close()
		conn, err := d.dial(link.address())
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		client := pb.NewTestServiceClient(conn)

		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var streams sync.WaitGroup
		if large != nil {
			for range bulkStreams {
				streams.Go(func() {
					if err := large(ctx, client); ctx.Err() == nil {
						cancel(err)
					}
				})
			}
			time.Sleep(length / 4) // they fill what they can fill
		}
		seen, err := smallCalls(ctx, client, smallUsers, length)
		cancel(nil)
		streams.Wait()
		return []float64{1e3 * seen.p99}, err
	}}
}

func upload(ctx context.Context, client pb.TestServiceClient) error {
	s, err := client.StreamingInputCall(ctx)
	if err != nil {
		return err
	}
	message := &pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, bulk)}}
	for {
		if err := s.Send(message); err == io.EOF {
			_, err = s.CloseAndRecv()
			return err
		} else if err != nil {
			return err
		}
	}
}

func download(ctx context.Context, client pb.TestServiceClient) error {
	s, err := client.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
	if err != nil {
		return err
	}
	for {
		if _, err := s.Recv(); err != nil {
			return err
		}
	}
}
