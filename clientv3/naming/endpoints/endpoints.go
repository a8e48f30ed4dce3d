package endpoints

import (
	"context"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/internal/registry"
)

// Endpoint is an address that can be connected to.
type Endpoint struct {
	// Addr is the address, as gRPC takes it: "host:port" for most.
	Addr string

	// Metadata is any value that encodes to JSON. Readers get it as encoding/json decodes into an
	// any: numbers as float64, objects as map[string]any.
	Metadata any
}

// Encode returns the value of a key that registers an endpoint, for programs which put the key
// themselves, for example with concurrency.KeepKey. It fails if the metadata has no form in JSON.
func Encode(e Endpoint) (string, error) { return registry.Encode(registry.Endpoint(e)) }

// Operation is the kind of an Update.
type Operation uint8

const (
	// Add registers an endpoint, or replaces the one that has its key.
	Add Operation = iota
	// Delete removes an endpoint.
	Delete
)

// Update is a change of one endpoint.
type Update struct {
	// Op is the operation on Key.
	Op Operation
	// Key is the full key in etcd: target, slash, name.
	Key string
	// Endpoint is the registered endpoint. It is empty in a deletion.
	Endpoint Endpoint
}

// WatchChannel delivers changes of endpoints, see [Manager].
type WatchChannel <-chan []*Update

// Key2EndpointMap maps keys in etcd to their endpoints.
type Key2EndpointMap map[string]Endpoint

// UpdateWithOpts is an update to execute, with the options of its put or delete, such as
// clientv3.WithLease.
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

// Manager manages the endpoints of one target. A Manager of [NewManager] is safe for concurrent
// use.
type Manager interface {
	// Update executes several updates in one transaction: all of them or none.
	//
	// The error has codes.InvalidArgument, and nothing was sent, if a key does not begin with the
	// target and a slash, an operation does not exist, or metadata does not encode to JSON.
	// Otherwise it is an error of the transaction, see clientv3.KV: rpctypes.ErrTooManyOps beyond
	// the server's limit (--max-txn-ops, 128 by default), or a *retry.UnknownOutcomeError if it
	// may have been executed. It is safe to repeat it then.
	Update(ctx context.Context, updates []*UpdateWithOpts) error

	// AddEndpoint registers one endpoint. Errors are those of Update.
	AddEndpoint(ctx context.Context, key string, endpoint Endpoint, opts ...clientv3.OpOption) error

	// DeleteEndpoint removes one endpoint, which need not exist. Errors are those of Update.
	DeleteEndpoint(ctx context.Context, key string, opts ...clientv3.OpOption) error

	// List returns all endpoints of the target. It is a serializable read, which any member
	// serves, even without a quorum, and which may be out of date. Invalid values are skipped with
	// a warning in the client's log.
	List(ctx context.Context) (Key2EndpointMap, error)

	// NewWatchChannel returns a channel that first delivers an addition for each present endpoint,
	// if there are any, and then every change, those of one revision together. Invalid values are
	// skipped with a warning in the client's log; if the key had a valid value before, that one
	// stays.
	//
	// The first list is read before it returns, and the error is that of the list. Afterwards only
	// the end of ctx, or Close of the client, closes the channel. While etcd is unreachable it
	// delivers nothing. If the watch cannot resume, for example because of a compaction, the
	// endpoints are listed again, with delays from 0.1 to 10 s while that fails; the channel then
	// delivers the difference: an addition for each new or changed endpoint, a deletion for each
	// missing one.
	//
	// A slow reader may receive the difference in place of the changes that led to it, but misses
	// nothing. A program must end ctx when it no longer reads.
	NewWatchChannel(ctx context.Context) (WatchChannel, error)
}
