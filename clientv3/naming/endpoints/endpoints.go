package endpoints

import (
	"context"
	"errors"
	"strings"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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

type manager struct {
	client *clientv3.Client
	target string
}

// NewManager returns the Manager of a target, the name of a service. It fails if client is nil or
// target is empty.
func NewManager(client *clientv3.Client, target string) (Manager, error) {
	if client == nil {
		return nil, errors.New("endpoints: the client is nil")
	}
	if target == "" {
		return nil, errors.New("endpoints: the target is empty; it is the name of a service")
	}
	return &manager{client, target}, nil
}

func (m *manager) Update(ctx context.Context, updates []*UpdateWithOpts) error {
	ops := make([]clientv3.Op, 0, len(updates))
	for i, u := range updates {
		if u == nil {
			return status.Errorf(codes.InvalidArgument, "endpoints: update %d is nil", i)
		}
		op, err := m.op(u)
		if err != nil {
			return err
		}
		ops = append(ops, op)
	}
	_, err := m.client.Txn(ctx).Then(ops...).Commit()
	return err
}

func (m *manager) op(u *UpdateWithOpts) (clientv3.Op, error) {
	if prefix := registry.Prefix(m.target); !strings.HasPrefix(u.Key, prefix) {
		return clientv3.Op{}, status.Errorf(codes.InvalidArgument,
			"endpoints: the key %q is not one of the target %q: it has to begin with %q", u.Key, m.target, prefix)
	}
	switch u.Op {
	case Add:
		value, err := Encode(u.Endpoint)
		if err != nil {
			return clientv3.Op{}, status.Errorf(codes.InvalidArgument, "endpoints: the endpoint of %q: %v", u.Key, err)
		}
		return clientv3.OpPut(u.Key, value, u.Opts...), nil
	case Delete:
		return clientv3.OpDelete(u.Key, u.Opts...), nil
	default:
		return clientv3.Op{}, status.Errorf(codes.InvalidArgument,
			"endpoints: the operation on %q is %d: it has to be Add (0) or Delete (1)", u.Key, u.Op)
	}
}

func (m *manager) AddEndpoint(ctx context.Context, key string, endpoint Endpoint, opts ...clientv3.OpOption) error {
	return m.Update(ctx, []*UpdateWithOpts{NewAddUpdateOpts(key, endpoint, opts...)})
}

func (m *manager) DeleteEndpoint(ctx context.Context, key string, opts ...clientv3.OpOption) error {
	return m.Update(ctx, []*UpdateWithOpts{NewDeleteUpdateOpts(key, opts...)})
}

func (m *manager) List(ctx context.Context) (Key2EndpointMap, error) {
	changes, err := registry.NewFollower(m.client, m.target, 0).List(ctx)
	if err != nil {
		return nil, err
	}
	all := make(Key2EndpointMap, len(changes))
	for _, c := range changes {
		all[c.Key] = Endpoint(c.Endpoint)
	}
	return all, nil
}

func (m *manager) NewWatchChannel(ctx context.Context) (WatchChannel, error) {
	follower := registry.NewFollower(m.client, m.target, 0)
	first, err := follower.List(ctx)
	if err != nil {
		return nil, err
	}
	w := watch{
		ctx: ctx, closed: m.client.Ctx().Done(), updates: make(chan []*Update, 1),
		log: m.client.GetLogger().With(zap.String("target", m.target)),
	}
	w.Changed(first)
	go func() {
		defer close(w.updates)
		_ = follower.Follow(ctx, w) // it ends with ctx or the client
	}()
	return w.updates, nil
}

// watch passes the changes of a Follower to a channel.
type watch struct {
	ctx     context.Context
	closed  <-chan struct{}
	updates chan []*Update
	log     *zap.Logger
}

func (w watch) Changed(changes []registry.Change) {
	if len(changes) == 0 {
		return
	}
	updates := make([]*Update, len(changes))
	for i, c := range changes {
		updates[i] = &Update{Op: Add, Key: c.Key, Endpoint: Endpoint(c.Endpoint)}
		if c.Deleted {
			updates[i].Op = Delete
		}
	}
	select {
	case w.updates <- updates:
	case <-w.ctx.Done():
	case <-w.closed:
	}
}

func (w watch) Lost(err error) {
	w.log.Warn("contact with etcd is lost; the known endpoints may be out of date", zap.Error(err))
}

func (w watch) Regained() { w.log.Info("contact with etcd is restored") }
