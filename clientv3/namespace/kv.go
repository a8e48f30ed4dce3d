package namespace

import (
	"context"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
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
