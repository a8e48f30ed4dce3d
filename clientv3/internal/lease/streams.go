package lease

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Stream is an open keepalive stream. pb.Lease_LeaseKeepAliveClient is one.
type Stream interface {
	Send(*pb.LeaseKeepAliveRequest) error
	Recv() (*pb.LeaseKeepAliveResponse, error)
}

// Streams opens streams, and decides what follows when they end. One goroutine uses
// it, but for Wake.
type Streams interface {
	// Open opens a stream that ends with ctx.
	Open(ctx context.Context) (Stream, error)
	// Progress notes that the latest stream has answered.
	Progress()
	// Next waits until it is time to open another stream, after one ended with
	// err, and returns nil. It returns the error at once if another stream would
	// meet it again, and that of ctx if it ends.
	Next(ctx context.Context, err error) error
	// Pause waits as Next does, but whatever the error is. Its own error says that
	// ctx has ended, or that there will be no more streams.
	Pause(ctx context.Context, err error) error
	// Wake says that a request waits for the next stream: it is opened at once, unless
	// streams fail repeatedly. Any goroutine may call it. It must not block.
	Wake()
	// Leaderless reports whether every endpoint has said, since the last Progress,
	// that it knows no leader.
	Leaderless() bool
	// Removed returns a channel that is closed when the endpoint of the latest
	// stream is removed. It may be nil.
	Removed() <-chan struct{}
}
