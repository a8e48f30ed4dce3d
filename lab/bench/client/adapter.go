package client

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Open makes a
func Open(cfg Config) (Client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints:   cfg.Endpoints,
		DialTimeout: cfg.DialTimeout,
		DialOptions: cfg.DialOptions,
		Logger:      zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	return adapter{c}, nil
}

type adapter struct {
	*clientv3.Client
}

func (a adapter) Get(ctx context.Context, key string) error {
	_, err := a.Client.Get(ctx, key)
	return err
}

func (a adapter) Put(ctx context.Context, key, value string) (int64, error) {
	resp, err := a.Client.Put(ctx, key, value)
	if err != nil {
		return 0, err
	}
	return resp.Header.GetRevision(), nil
}

func (a adapter) Watch(ctx context.Context, key string, opts WatchOptions) Watch {
	var ops []clientv3.OpOption
	if opts.Prefix {
		ops = append(ops, clientv3.WithPrefix())
	}
	if opts.Revision > 0 {
		ops = append(ops, clientv3.WithRev(opts.Revision))
	}
	return watch(a.Client.Watch(ctx, key, ops...))
}

func (a adapter) Grant(ctx context.Context, ttl int64) (int64, error) {
	resp, err := a.Client.Grant(ctx, ttl)
	if err != nil {
		return 0, err
	}
	return int64(resp.ID), nil
}

func (a adapter) KeepAlive(ctx context.Context, lease int64) (Renewals, error) {
	ch, err := a.Client.KeepAlive(ctx, clientv3.LeaseID(lease))
	return renewals(ch), err
}

func (a adapter) Close() {
	_ = a.Client.Close() // a first Close fails only in what is no part of a measurement
}

// watch is a channel and nothing else, which an interface holds without an
// allocation.
type watch clientv3.WatchChan

func (w watch) Next() ([]*mvccpb.Event, error) {
	resp, ok := <-w
	if !ok {
		return nil, ErrClosed
	}
	return resp.Events, resp.Err()
}

type renewals <-chan *clientv3.LeaseKeepAliveResponse

func (r renewals) Next() error {
	if _, ok := <-r; !ok {
		return ErrClosed
	}
	return nil
}

func (r renewals) Drain() (int, error) {
	for n := 0; ; n++ {
		select {
		case _, ok := <-r:
			if !ok {
				return n, ErrClosed
			}
		default:
			return n, nil
		}
	}
}
