package clientv3

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// GetStreamChan delivers the chunks of [KV.GetStream] and is closed after the last.
//
// A reader that stops before the channel is closed must cancel the context of the
// call: until then, or until the client is closed, the stream stays open.
type GetStreamChan <-chan RangeStreamResponse

// RangeStreamResponse is one chunk of a streamed range. Each chunk continues in
// lexical order where the previous one ended. Header, More and Count are set only on
// the last chunk, with the values of a [KV.Get] response.
//
// If the stream fails, the last value has a nil RangeResponse and a non-nil Err.
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
