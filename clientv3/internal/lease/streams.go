package lease

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Streams opens streams, and decides how to proceed when they end. One goroutine
// uses it, except for Wake.
type Streams interface {
	// Open opens a stream that ends with ctx.
	Open(ctx context.Context) (pb.Lease_LeaseKeepAliveClient, error)
	// Progress records that the latest stream has answered.
	Progress()
	// Next waits until it is time to open another stream, after one ended with err,
	// and returns nil. It returns err at once if another stream would fail the same
	// way, and ctx's error if ctx ends.
	Next(ctx context.Context, err error) error
	// Pause waits like Next, for any err. It returns an error only if ctx has ended
	// or no further stream will be opened.
	Pause(ctx context.Context, err error) error
	// Wake reports that a request waits for the next stream: it is opened at once,
	// unless streams fail repeatedly. Any goroutine may call it. It must not block.
	Wake()
	// Leaderless reports whether every endpoint has reported, since the last
	// Progress, that it knows no leader.
	Leaderless() bool
	// Removed returns a channel that is closed when the endpoint of the latest
	// stream is removed. It may be nil.
	Removed() <-chan struct{}
}
