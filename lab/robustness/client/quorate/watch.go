package quorate

import (
	"context"
	"iter"
	"unique"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/history"
)

// Watch implements [client.Watcher].
func (c Client) Watch(ctx context.Context, req history.WatchRequest) iter.Seq[history.WatchResponse] {
	if req.RequireLeader {
		ctx = clientv3.WithRequireLeader(ctx)
	}
	responses := c.Client.Watch(ctx, req.Key, watchOptions(req)...)
	return func(yield func(history.WatchResponse) bool) {
		for resp := range responses {
			if !yield(watchResponse(resp)) {
				return
			}
		}
	}
}

// watchOptions spells a request in the options of the client. RequireLeader is not
// among them: it is a property of the context.
func watchOptions(req history.WatchRequest) []clientv3.OpOption {
	opts := []clientv3.OpOption{clientv3.WithRev(req.StartRevision)}
	add := func(wanted bool, option clientv3.OpOption) {
		if wanted {
			opts = append(opts, option)
		}
	}
	add(req.RangeEnd != "", clientv3.WithRange(req.RangeEnd))
	add(req.PrevKV, clientv3.WithPrevKV())
	add(req.ProgressNotify, clientv3.WithProgressNotify())
	add(req.CreatedNotify, clientv3.WithCreatedNotify())
	add(req.Fragment, clientv3.WithFragment())
	add(req.NoPut, clientv3.WithFilterPut())
	add(req.NoDelete, clientv3.WithFilterDelete())
	return opts
}

// watchResponse turns a response of the client into one of a history.
func watchResponse(resp clientv3.WatchResponse) history.WatchResponse {
	return history.WatchResponse{
		Revision: resp.Header.GetRevision(), Created: resp.Created, Canceled: resp.Canceled,
		CompactRevision: resp.CompactRevision, Err: resp.Err(), Events: Events(resp.Events),
	}
}

// Events turns events as a server sends them into those of a history. Many watches
// see the same ones, so equal texts are kept once.
func Events(from []*mvccpb.Event) []history.Event {
	if len(from) == 0 {
		return nil
	}
	events := make([]history.Event, len(from))
	for i, e := range from {
		events[i] = history.Event{Type: e.Type, KeyValue: keyValue(e.Kv)}
		if e.PrevKv != nil {
			prev := keyValue(e.PrevKv)
			events[i].Prev = &prev
		}
	}
	return events
}

func keyValue(kv *mvccpb.KeyValue) history.KeyValue {
	return history.KeyValue{
		Key: unique.Make(string(kv.GetKey())).Value(), Value: unique.Make(string(kv.GetValue())).Value(),
		CreateRevision: kv.GetCreateRevision(), ModRevision: kv.GetModRevision(), Version: kv.GetVersion(), Lease: kv.GetLease(),
	}
}
