// Package client has the interfaces that the lab needs of an etcd client. Its packages quorate and official implement them with
// the same source; official has a copy that `go generate` makes.
package client

//go:generate go test -run TestCopies . -update

import (
	"context"
	"crypto/tls"
	"iter"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// Target is what a client connects to.
type Target struct {
	Endpoints []string
	// TLS is nil for members that serve without.
	TLS *tls.Config
}

// KV makes the operations of package model.
type KV interface {
	// Do makes one operation on the keys of a group, whose names it is given.
	Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error)
}

// Watcher opens the watches of a client.
type Watcher interface {
	// Watch begins a watch and returns what its reader takes from the channel,
	// response by response, until the channel is closed. The time of arrival is left
	// for the reader to fill in. The end of ctx ends the watch; a reader that stops
	// before the last response must end it.
	Watch(ctx context.Context, req history.WatchRequest) iter.Seq[history.WatchResponse]
}

// Lessor grants and keeps the leases of a client.
type Lessor interface {
	// Grant creates a lease and returns its id and the time to live that the server
	// chose, which may be longer than the one asked for.
	Grant(ctx context.Context, ttl time.Duration) (id int64, granted time.Duration, err error)
	// Attach writes a key that goes when the lease does.
	Attach(ctx context.Context, id int64, key, value string) error
	// KeepAlive keeps a lease alive and returns, for each answer, until when the
	// client claims the lease to live. If the client ends the keepalive with a reason,
	// that comes last, as an error. The end of ctx ends it too; a reader that stops
	// before must end ctx.
	KeepAlive(ctx context.Context, id int64) iter.Seq2[time.Time, error]
}

// Connection is how a load reaches a cluster.
type Connection struct {
	KV KV
	// Without a Watcher the load watches nothing, without a Lessor it keeps no leases.
	Watcher Watcher
	Lessor  Lessor
	// RequireLeader says that every watch is to end when its member has no leader.
	RequireLeader bool
	// Close ends the connection.
	Close func() error
}
