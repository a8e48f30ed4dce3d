package clientv3

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// GetStreamChan delivers the chunks of [KV.GetStream] and is closed after the last.
//
// A reader that stops before the channel is closed must end the context of the call:
// the stream lives until then, or until the client is closed.
type GetStreamChan <-chan RangeStreamResponse

// RangeStreamResponse is one chunk of a streamed range. Every chunk holds other keys
// than those before it, and the next ones in lexical order. Header, More and Count
// are set on the last chunk alone, and say there what they say in the response to
// [KV.Get].
//
// When the stream fails, the last value is one whose RangeResponse is nil and whose
// Err is not.
type RangeStreamResponse struct {
	*pb.RangeResponse
	closeErr error
}

// Err returns the error that ended the stream, nil for a chunk.
func (r *RangeStreamResponse) Err() error { return r.closeErr }

// GetStreamToGetResponse reads a stream to its end and returns what [KV.Get] would
// have returned, or the error that ended the stream.
func GetStreamToGetResponse(stream GetStreamChan) (*GetResponse, error) {
	resp := &GetResponse{}
	for chunk := range stream {
		if err := chunk.Err(); err != nil {
			return nil, err
		}
		resp.Kvs = append(resp.Kvs, chunk.GetKvs()...)
		if header := chunk.GetHeader(); header != nil {
			resp.Header = header
		}
		resp.More = resp.More || chunk.GetMore()
		if count := chunk.GetCount(); count != 0 {
			resp.Count = count
		}
	}
	return resp, nil
}

func (kv *kv) GetStream(ctx context.Context, key string, opts ...OpOption) (GetStreamChan, error) {
	op := OpGet(key, opts...)
	if err := kv.ended(ctx); err != nil {
		return nil, err
	}
	s := &rangeStream{
		kv:      kv,
		ctx:     ctx,
		cursor:  rangeCursor{op: op},
		retrier: kv.client.retrier(pb.KV_RangeStream_FullMethodName),
		out:     make(chan RangeStreamResponse, 1),
	}
	s.remote = over(kv.client, s.retrier, kv.remote, pb.NewKVClient)
	go s.run()
	return s.out, nil
}
