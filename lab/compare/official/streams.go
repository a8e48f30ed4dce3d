package official

import (
	"context"
	"iter"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/load"
)

// watcher implements [load.Watcher] for the requests that the load makes: a key or a
// range, from a revision on.
type watcher struct {
	client        *clientv3.Client
	requireLeader bool // of every watch
}

func (w watcher) Watch(ctx context.Context, req history.WatchRequest) iter.Seq[history.WatchResponse] {
	opts := []clientv3.OpOption{clientv3.WithRev(req.StartRevision)}
	if req.RangeEnd != "" {
		opts = append(opts, clientv3.WithRange(req.RangeEnd))
	}
	if w.requireLeader || req.RequireLeader {
		ctx = clientv3.WithRequireLeader(ctx)
	}
	responses := w.client.Watch(ctx, req.Key, opts...)
	return func(yield func(history.WatchResponse) bool) {
		for resp := range responses {
			if !yield(watchResponse(resp)) {
				return
			}
		}
	}
}

func watchResponse(resp clientv3.WatchResponse) history.WatchResponse {
	return history.WatchResponse{
		Revision: resp.Header.GetRevision(), Created: resp.Created, Canceled: resp.Canceled,
		CompactRevision: resp.CompactRevision, Err: resp.Err(), Events: load.Events(resp.Events),
	}
}

// lessor implements [load.Lessor].
type lessor struct {
	client *clientv3.Client
}

func (l lessor) Grant(ctx context.Context, ttl time.Duration) (id int64, granted time.Duration, err error) {
	resp, err := l.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, 0, err
	}
	return int64(resp.ID), time.Duration(resp.TTL) * time.Second, nil
}

func (l lessor) Attach(ctx context.Context, id int64, key, value string) error {
	_, err := l.client.Put(ctx, key, value, clientv3.WithLease(clientv3.LeaseID(id)))
	return err
}

func (l lessor) Revoke(ctx context.Context, id int64) error {
	_, err := l.client.Revoke(ctx, clientv3.LeaseID(id))
	return err
}

// KeepAlive claims what the official client itself counts with: that the lease lives
// for its TTL from when the answer arrived. The client says nothing of why it ends a
// keepalive.
func (l lessor) KeepAlive(ctx context.Context, id int64) iter.Seq2[time.Time, error] {
	renewals, err := l.client.KeepAlive(ctx, clientv3.LeaseID(id))
	return func(yield func(time.Time, error) bool) {
		if err != nil {
			yield(time.Time{}, err)
			return
		}
		for resp := range renewals {
			if !yield(time.Now().Add(time.Duration(resp.TTL)*time.Second), nil) {
				return
			}
		}
	}
}
