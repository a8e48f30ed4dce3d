package load

import (
	"context"
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/history"
)

// NewWatcher returns a Watcher that watches through a client.
func NewWatcher(w clientv3.Watcher) Watcher { return clientWatcher{w} }

type clientWatcher struct {
	watcher clientv3.Watcher
}

func (w clientWatcher) Watch(ctx context.Context, req history.WatchRequest) iter.Seq[history.WatchResponse] {
	if req.RequireLeader {
		ctx = clientv3.WithRequireLeader(ctx)
	}
	responses := w.watcher.Watch(ctx, req.Key, watchOptions(req)...)
	return func(yield func(history.WatchResponse) bool) {
		for resp := range responses {
			if !yield(watchResponse(resp)) {
				return
			}
		}
	}
}

func watchOptions(req history.WatchRequest) []clientv3.OpOption {
	opts := []clientv3.OpOption{clientv3.WithRev(req.StartRevision)}
	for _, o := range []struct {
		set    bool
		option func() clientv3.OpOption
	}{
		{req.RangeEnd != "", func() clientv3.OpOption { return clientv3.WithRange(req.RangeEnd) }},
		{req.PrevKV, clientv3.WithPrevKV},
		{req.ProgressNotify, clientv3.WithProgressNotify},
		{req.CreatedNotify, clientv3.WithCreatedNotify},
		{req.Fragment, clientv3.WithFragment},
		{req.NoPut, clientv3.WithFilterPut},
		{req.NoDelete, clientv3.WithFilterDelete},
	} {
		if o.set {
			opts = append(opts, o.option())
		}
	}
	return opts
}

func watchResponse(resp clientv3.WatchResponse) history.WatchResponse {
	out := history.WatchResponse{
		Revision: resp.Header.GetRevision(), Created: resp.Created, Canceled: resp.Canceled,
		CompactRevision: resp.CompactRevision, Err: resp.Err(),
		Events: make([]history.Event, len(resp.Events)),
	}
	for i, e := range resp.Events {
		event := history.Event{KeyValue: keyValue(e.Kv)}
		if e.Type == clientv3.EventTypeDelete {
			event.Type = history.DeleteEvent
		}
		if e.PrevKv != nil {
			prev := keyValue(e.PrevKv)
			event.Prev = &prev
		}
		out.Events[i] = event
	}
	return out
}

func keyValue(kv *mvccpb.KeyValue) history.KeyValue {
	return history.KeyValue{
		Key: string(kv.Key), Value: string(kv.Value),
		CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease,
	}
}
