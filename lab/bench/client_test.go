package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

// kind is one of the clients that are compared.
type kind struct {
	name string
	open func(config) (client, error)
}

var kinds = []kind{{"official", openTheirs}, {"quorate", openOurs}}

// config is what the clients are made with; all else has their own defaults, except for the logger, which discards.
type config struct {
	endpoints []string
	tls       *tls.Config
	options   []grpc.DialOption
}

// dialTimeout is the DialTimeout of the clients. Nothing dials under it, but it is also how long a lease waits for its first
// renewal, by default 5 s, which on a busy machine is too short for thousands of new leases.
const dialTimeout = time.Minute

// client has the methods that the benchmarks use. go generate ./lab/robustness/client copies our implementation for the official
// client.
type client interface {
	get(ctx context.Context, key string) error
	put(ctx context.Context, key string) (revision int64, err error)
	// watch watches a key from now on.
	watch(ctx context.Context, key string) watch
	// watchAll watches all keys that begin with a prefix, from a revision, or from now on if it is 0.
	watchAll(ctx context.Context, prefix string, revision int64) watch
	// lease grants a lease within the context granting, and keeps it alive until ctx ends.
	lease(ctx, granting context.Context, ttl int64) (renewals, error)
	SetEndpoints(endpoints ...string)
	Close() error
}

// watch is the channel of a watch.
type watch interface {
	// next waits for the next response.
	next() ([]*mvccpb.Event, error)
}

// errClosed says that the client closed a channel that was still wanted.
var errClosed = errors.New("the client closed the channel")

// renewals is the channel of a lease that is kept alive.
type renewals interface {
	// arrived returns how many answers have arrived and were not read.
	arrived() int
	// read waits for the next answer, and returns false if there will be none.
	read() bool
}
