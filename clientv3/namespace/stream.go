package namespace

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
)

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
