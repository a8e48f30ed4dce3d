package endpoints

import (
	"context"

	"github.com/quorate/quorate/clientv3"
)

// Endpoint is an address that can be connected to.
type Endpoint struct {
	// Addr is the address, as gRPC takes it: "host:port" for most.
	Addr string

	// Metadata is anything that belongs to the address and has a form in JSON.
	// Readers get it as encoding/json decodes into an any: numbers as float64,
	// objects as map[string]any.
	Metadata any
}

// Operation tells additions from deletions.
type Operation uint8

const (
	// Add registers an endpoint, or replaces the one that has its key.
	Add Operation = iota
	// Delete removes an endpoint.
	Delete
)

// Update is a change of one endpoint.
type Update struct {
	// Op says what is done, or was done, to Key.
	Op Operation
	// Key is the whole key in etcd: target, slash, name.
	Key string
	// Endpoint is what is registered. It is empty in a deletion.
	Endpoint Endpoint
}

// WatchChannel delivers changes of endpoints, see [Manager].
type WatchChannel <-chan []*Update

// Key2EndpointMap has endpoints by their key in etcd.
type Key2EndpointMap map[string]Endpoint

// UpdateWithOpts is an update to carry out, with the options of the put or delete
// that does it, such as clientv3.WithLease.
type UpdateWithOpts struct {
	Update
	// Opts are for the put of an addition, or the delete of a deletion.
	Opts []clientv3.OpOption
}

// NewAddUpdateOpts returns the update that registers an endpoint.
func NewAddUpdateOpts(key string, endpoint Endpoint, opts ...clientv3.OpOption) *UpdateWithOpts {
	return &UpdateWithOpts{Update: Update{Op: Add, Key: key, Endpoint: endpoint}, Opts: opts}
}

// NewDeleteUpdateOpts returns the update that removes an endpoint.
func NewDeleteUpdateOpts(key string, opts ...clientv3.OpOption) *UpdateWithOpts {
	return &UpdateWithOpts{Update: Update{Op: Delete, Key: key}, Opts: opts}
}

// Manager keeps the endpoints of one target. [NewManager] makes one that is safe
// for concurrent use.
type Manager interface {
	// Update carries out several updates in one transaction: all of them or none.
	//
	// The error has codes.InvalidArgument, and nothing was sent, if a key does not
	// begin with the target and a slash, an operation does not exist, or metadata has
	// no form in JSON. Otherwise it is an error of the transaction, see clientv3.KV:
	// rpctypes.ErrTooManyOps beyond the server's limit (--max-txn-ops, 128 by
	// default), or a *retry.UnknownOutcomeError if it may or may not have been
	// carried out. It is safe to repeat it then.
	Update(ctx context.Context, updates []*UpdateWithOpts) error

	// AddEndpoint registers one endpoint. Errors are those of Update.
	AddEndpoint(ctx context.Context, key string, endpoint Endpoint, opts ...clientv3.OpOption) error

	// DeleteEndpoint removes one endpoint. There need not be one. Errors are those
	// of Update.
	DeleteEndpoint(ctx context.Context, key string, opts ...clientv3.OpOption) error

	// List returns all endpoints of the target. It asks any member, which may be
	// behind the others, and so works without a quorum. A value that cannot be
	// understood is left out, with a warning in the client's log.
	List(ctx context.Context) (Key2EndpointMap, error)

	// NewWatchChannel returns a channel that first delivers an addition for each
	// endpoint that there is, if there are any, and from then on every change, those
	// of one revision together. A value that cannot be understood is left out, with
	// a warning in the client's log; if the key had another value before, that one
	// counts on.
	//
	// The first list is made before it returns, and the error is that of the list.
	// Later on nothing but the end of ctx or Close of the client ends the channel, and
	// both close it. While etcd cannot be reached it delivers nothing. When its watch
	// is broken, because what it needs next was compacted for instance, the endpoints
	// are listed again, after a delay that grows from 0.1 to 10 s if that
	// fails; the channel then delivers the difference: an addition for what is new or
	// has changed, a deletion for what has gone.
	//
	// A reader who is slow misses nothing, but may get the difference in place of the
	// changes that led to it. A program must end ctx when it no longer reads.
	NewWatchChannel(ctx context.Context) (WatchChannel, error)
}
