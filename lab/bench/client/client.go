// Package client is the one interface through which measured programs use an etcd client.
//
// It is written for the official client. The programs are compiled with that, and with the shim in its place, so that both do
// the same around the calls that are measured. Nothing is allocated for a response.
package client

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

// ErrClosed says that the client closed a channel that was still wanted.
var ErrClosed = errors.New("the client closed the channel")

// Config is how a client is made. Everything else has the client's own default,
// but for the logger, which discards.
type Config struct {
	Endpoints   []string
	DialOptions []grpc.DialOption
	// DialTimeout is that of the client. It also bounds how long a lease waits for
	// its first renewal. 0 is the client's own default.
	DialTimeout time.Duration
}

// Client is what the cases need of an etcd client.
type Client interface {
	// Get reads a key with a linearizable read.
	Get(ctx context.Context, key string) error
	// Put writes a key and returns the revision.
	Put(ctx context.Context, key, value string) (int64, error)
	// Watch makes a watch and returns when the client says that it exists.
	Watch(ctx context.Context, key string, opts WatchOptions) Watch
	// Grant makes a lease of ttl seconds and returns its id.
	Grant(ctx context.Context, ttl int64) (int64, error)
	// KeepAlive renews a lease until ctx ends.
	KeepAlive(ctx context.Context, lease int64) (Renewals, error)
	// SetEndpoints replaces the endpoints.
	SetEndpoints(endpoints ...string)
	// Close ends the client and all that it holds.
	Close()
}

// WatchOptions says what a watch watches.
type WatchOptions struct {
	// Prefix makes the key a prefix.
	Prefix bool
	// Revision is the first revision wanted, 0 for what comes next.
	Revision int64
}

// Watch is a watch that is being read.
type Watch interface {
	// Next waits for the next response and returns its events. It returns the
	// error of a watch that has failed, and ErrClosed after the last response.
	Next() ([]*mvccpb.Event, error)
}

// Renewals are the answers to the keepalives of a lease.
type Renewals interface {
	// Next waits for the next answer. It returns ErrClosed if no more will come.
	Next() error
	// Drain takes the answers that have come and does not wait. It returns how
	// many they are, and ErrClosed if no more will come.
	Drain() (int, error)
}
