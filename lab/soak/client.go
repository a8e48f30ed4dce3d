package soak

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
	"unique"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/history"
)

// dialTimeout is what the clients of a run are configured with.
const dialTimeout = 5 * time.Second

// Client is a client whose watches are put to the test.
type Client interface {
	// Watch opens a watch, and returns when the client's own Watch does.
	Watch(ctx context.Context, r history.WatchRequest) Next
	// RequestProgress asks for bookmarks of the watches whose contexts have the
	// outgoing metadata of ctx.
	RequestProgress(ctx context.Context) error
	// Close ends the client and its watches.
	Close() error
}

// Next takes the next response from a watch's channel. It reports false when the
// channel is closed, and fails with the error of ctx when that ends first.
type Next func(ctx context.Context) (r history.WatchResponse, open bool, err error)

// narrowBuffer bounds what is kept for a slow reader of one of the two clients, so
// that his watches are paused and resumed, which the default makes rare.
const narrowBuffer = 64 << 10

// Quorate connects through two clients of Quorate, each of which has half of the
// watches: one with default policies, and one that pauses watches early.
func Quorate(endpoints []string) (Client, error) {
	wide, err := newClient(endpoints, 0)
	if err != nil {
		return nil, err
	}
	narrow, err := newClient(endpoints, narrowBuffer)
	if err != nil {
		return nil, errors.Join(err, wide.Close())
	}
	return &quorate{clients: []*clientv3.Client{wide, narrow}}, nil
}

func newClient(endpoints []string, buffer int) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: dialTimeout, Logger: zap.NewNop(), MaxWatchBufferBytes: buffer,
	})
}

type quorate struct {
	clients []*clientv3.Client
	next    atomic.Uint64 // whose turn it is
}

func (q *quorate) RequestProgress(ctx context.Context) error {
	errs := make([]error, len(q.clients))
	for i, c := range q.clients {
		errs[i] = c.RequestProgress(ctx)
	}
	return errors.Join(errs...)
}

func (q *quorate) Close() error {
	errs := make([]error, len(q.clients))
	for i, c := range q.clients {
		errs[i] = c.Close()
	}
	return errors.Join(errs...)
}

func (q *quorate) Watch(ctx context.Context, r history.WatchRequest) Next {
	c := q.clients[q.next.Add(1)%uint64(len(q.clients))]
	channel := c.Watch(ctx, r.Key, options(r)...)
	return func(ctx context.Context) (history.WatchResponse, bool, error) {
		select {
		case response, open := <-channel:
			if !open {
				return history.WatchResponse{}, false, nil
			}
			return history.WatchResponse{
				Revision: response.Header.GetRevision(), Events: events(response.Events),
				Created: response.Created, Canceled: response.Canceled, CompactRevision: response.CompactRevision,
				Err: response.Err(),
			}, true, nil
		case <-ctx.Done():
			return history.WatchResponse{}, false, ctx.Err()
		}
	}
}

// options spells a request in the options of the client.
func options(r history.WatchRequest) []clientv3.OpOption {
	var opts []clientv3.OpOption
	switch r.RangeEnd {
	case "":
	case "\x00":
		opts = append(opts, clientv3.WithFromKey())
	default:
		opts = append(opts, clientv3.WithRange(r.RangeEnd))
	}
	if r.StartRevision != 0 {
		opts = append(opts, clientv3.WithRev(r.StartRevision))
	}
	for _, o := range []struct {
		wanted bool
		option func() clientv3.OpOption
	}{
		{r.PrevKV, clientv3.WithPrevKV},
		{r.ProgressNotify, clientv3.WithProgressNotify},
		{r.CreatedNotify, clientv3.WithCreatedNotify},
		{r.Fragment, clientv3.WithFragment},
		{r.NoPut, clientv3.WithFilterPut},
		{r.NoDelete, clientv3.WithFilterDelete},
	} {
		if o.wanted {
			opts = append(opts, o.option())
		}
	}
	return opts
}

// events turns the events of a response into those of a history.
func events(from []*mvccpb.Event) []history.Event {
	if len(from) == 0 {
		return nil
	}
	out := make([]history.Event, len(from))
	for i, e := range from {
		out[i].KeyValue = keyValue(e.Kv)
		if e.Type == mvccpb.Event_DELETE {
			out[i].Type = history.DeleteEvent
		}
		if e.PrevKv != nil {
			previous := keyValue(e.PrevKv)
			out[i].Prev = &previous
		}
	}
	return out
}

// keyValue turns one key-value into that of a history. All watches together keep one
// copy of each key and value.
func keyValue(kv *mvccpb.KeyValue) history.KeyValue {
	return history.KeyValue{
		Key: unique.Make(string(kv.GetKey())).Value(), Value: unique.Make(string(kv.GetValue())).Value(),
		CreateRevision: kv.GetCreateRevision(), ModRevision: kv.GetModRevision(), Version: kv.GetVersion(),
		Lease: kv.GetLease(),
	}
}
