package namespace

import (
	"context"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/internal/pause"
)

type kvPrefix struct {
	optxn.KV // Compact works on the whole store
	store    clientv3.KV
	scope    scope
}

// NewKV returns a KV whose keys are those of kv that begin with prefix. It reads
// and writes through kv.Do, kv.Txn and kv.GetStream, and answers like a store that has
// nothing but these keys; an empty key gives rpctypes.ErrEmptyKey, also within a
// transaction. Two things differ from such a store: revisions are those of kv, and
// Compact discards the history of all of kv.
//
// A GetStream takes a goroutine of its own. A reader who stops early must end its
// context; to close the client is not enough.
func NewKV(kv clientv3.KV, prefix string) clientv3.KV {
	k := &kvPrefix{store: kv, scope: scope(prefix)}
	k.KV = optxn.Over(kv, k.do)
	return k
}

func (kv *kvPrefix) Txn(ctx context.Context) clientv3.Txn {
	return optxn.New(func(op clientv3.Op) (clientv3.OpResponse, error) {
		op, err := kv.scope.opTxn(op)
		if err != nil {
			return clientv3.OpResponse{}, err
		}
		cmps, thenOps, elseOps := op.Txn()
		resp, err := kv.store.Txn(ctx).If(cmps...).Then(thenOps...).Else(elseOps...).Commit()
		if err != nil {
			return clientv3.OpResponse{}, err
		}
		return kv.scope.opResponse(resp.OpResponse()), nil
	})
}

func (kv *kvPrefix) do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	op, err := kv.scope.op(op)
	if err != nil {
		return clientv3.OpResponse{}, err
	}
	resp, err := kv.store.Do(ctx, op)
	if err != nil {
		return clientv3.OpResponse{}, err
	}
	return kv.scope.opResponse(resp), nil
}

func (kv *kvPrefix) GetStream(ctx context.Context, key string, opts ...clientv3.OpOption) (clientv3.GetStreamChan, error) {
	op := clientv3.OpGet(key, opts...)
	if len(op.KeyBytes()) == 0 {
		return nil, rpctypes.ErrEmptyKey
	}
	op = kv.scope.keyed(op)
	in, err := kv.store.GetStream(ctx, string(op.KeyBytes()), optxn.As(op))
	if err != nil {
		return nil, err
	}
	// Room for one chunk: the one that deliverRest leaves behind.
	out := make(chan clientv3.RangeStreamResponse, 1)
	go kv.relay(ctx, in, out)
	return out, nil
}

// relay delivers the chunks of in to the reader of out. It ends when in does, or
// when ctx has: then in does so without being waited for.
func (kv *kvPrefix) relay(ctx context.Context, in clientv3.GetStreamChan, out chan clientv3.RangeStreamResponse) {
	defer close(out)
	for chunk := range in {
		chunk = kv.chunk(chunk)
		select {
		case out <- chunk:
		case <-ctx.Done():
			kv.deliverRest(chunk, in, out)
			return
		}
	}
}

// deliverRest leaves the rest of a stream whose context has ended to a reader who
// may never come: its error, or all of its keys as one chunk. A reader who does come
// must not take a part of the range for all of it.
func (kv *kvPrefix) deliverRest(rest clientv3.RangeStreamResponse, in clientv3.GetStreamChan, out chan clientv3.RangeStreamResponse) {
	select {
	case unread := <-out:
		rest = join(unread, rest)
	default:
	}
	for chunk := range in {
		rest = join(rest, kv.chunk(chunk))
	}
	out <- rest
}

// join makes one chunk of two that follow each other. If one of them is an error,
// that is all that is left of them.
func join(first, second clientv3.RangeStreamResponse) clientv3.RangeStreamResponse {
	switch {
	case first.RangeResponse == nil:
		return first
	case second.RangeResponse == nil:
		return second
	}
	return clientv3.RangeStreamResponse{RangeResponse: &pb.RangeResponse{
		Header: second.Header,
		Kvs:    append(first.Kvs[:len(first.Kvs):len(first.Kvs)], second.Kvs...),
		More:   second.More,
		Count:  second.Count,
	}}
}

func (kv *kvPrefix) chunk(chunk clientv3.RangeStreamResponse) clientv3.RangeStreamResponse {
	chunk.RangeResponse = kv.scope.rangeResponse(chunk.RangeResponse)
	return chunk
}

type leasePrefix struct {
	clientv3.Lease
	prefix string
}

// NewLease returns a Lease whose TimeToLive lists only those attached keys that begin
// with prefix, without it. Leases themselves belong to no namespace: Leases lists
// all, and Revoke deletes the keys that are attached elsewhere, too.
func NewLease(l clientv3.Lease, prefix string) clientv3.Lease {
	return &leasePrefix{Lease: l, prefix: prefix}
}

func (l *leasePrefix) TimeToLive(ctx context.Context, id clientv3.LeaseID, opts ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	resp, err := l.Lease.TimeToLive(ctx, id, opts...)
	if err != nil || len(resp.Keys) == 0 {
		return resp, err
	}
	own := *resp
	own.Keys = nil
	for _, key := range resp.Keys {
		if name, inside := strings.CutPrefix(string(key), l.prefix); inside && name != "" {
			own.Keys = append(own.Keys, []byte(name))
		}
	}
	return &own, nil
}

type watcherPrefix struct {
	clientv3.Watcher
	scope scope

	// closing is closed by Close.
	closing chan struct{}

	// mu guards the start of relays against the wait for their end.
	mu     sync.Mutex
	relays sync.WaitGroup
}

// NewWatcher returns a Watcher of the keys of w that begin with prefix. It is like a
// Watcher of a store that has nothing but these keys, except that revisions and
// progress are those of w.
//
// A watch takes a goroutine, which ends when the watch does, when its context has
// ended, or with Close. Close closes w too, and with it the watches of others.
func NewWatcher(w clientv3.Watcher, prefix string) clientv3.Watcher {
	return &watcherPrefix{Watcher: w, scope: scope(prefix), closing: make(chan struct{})}
}

func (w *watcherPrefix) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpWatch(key, opts...)
	if len(op.KeyBytes()) == 0 {
		op.WithKeyBytes(noEnd) // where the server begins, too
	}
	op = w.scope.keyed(op)
	in := w.Watcher.Watch(ctx, string(op.KeyBytes()), optxn.As(op))
	out := make(chan clientv3.WatchResponse, 1)
	w.begin(ctx, in, out)
	return out
}

// begin starts the relay between two channels. If in is closed from the outset, so is out
// when Watch returns.
func (w *watcherPrefix) begin(ctx context.Context, in clientv3.WatchChan, out chan clientv3.WatchResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pause.Closed(w.closing) || !w.takeFirst(in, out) {
		close(out)
		return
	}
	w.relays.Go(func() {
		defer close(out)
		w.relay(ctx, in, out)
	})
}

// takeFirst passes on the first response if there is one already, and reports
// whether there may be more.
func (w *watcherPrefix) takeFirst(in clientv3.WatchChan, out chan<- clientv3.WatchResponse) bool {
	select {
	case resp, open := <-in:
		if open {
			out <- w.response(resp)
		}
		return open
	default:
		return true
	}
}

func (w *watcherPrefix) relay(ctx context.Context, in clientv3.WatchChan, out chan<- clientv3.WatchResponse) {
	var resp clientv3.WatchResponse
	from, to := in, chan<- clientv3.WatchResponse(nil)
	for {
		select {
		case next, open := <-from:
			if !open {
				return
			}
			resp, from, to = w.response(next), nil, out
		case to <- resp:
			from, to = in, nil
		case <-ctx.Done():
			return
		case <-w.closing:
			return
		}
	}
}

func (w *watcherPrefix) response(resp clientv3.WatchResponse) clientv3.WatchResponse {
	resp.Events = w.scope.events(resp.Events)
	return resp
}

func (w *watcherPrefix) Close() error {
	err := w.Watcher.Close()
	w.mu.Lock()
	if !pause.Closed(w.closing) {
		close(w.closing)
	}
	w.mu.Unlock()
	w.relays.Wait()
	return err
}
