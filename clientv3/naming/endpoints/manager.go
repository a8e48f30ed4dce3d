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
