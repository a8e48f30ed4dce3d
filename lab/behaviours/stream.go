package behaviours

import (
	"context"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// gather reads a stream to its end.
func gather(stream clientv3.GetStreamChan, err error) (*clientv3.GetResponse, error) {
	if err != nil {
		return nil, err
	}
	return clientv3.GetStreamToGetResponse(stream)
}

// longStreams reads ranges that arrive in several chunks, whose boundaries are the server's business.
func longStreams(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	value := strings.Repeat("v", 20_000)
	const keys = 100
	puts := make([]clientv3.Op, 0, keys)
	for i := range keys {
		puts = append(puts, clientv3.OpPut(fmt.Sprintf("long/%03d", i), value))
	}
	for half := range 2 {
		ok(c.Txn(ctx).Then(puts[keys/2*half : keys/2*(half+1)]...).Commit())
	}
	log.Step("long")(gather(c.GetStream(ctx, "long/", clientv3.WithPrefix())))
	log.Step("long, limit")(gather(c.GetStream(ctx, "long/", clientv3.WithPrefix(), clientv3.WithLimit(70))))

	log.Step("long, chunk by chunk")(chunks(c.GetStream(ctx, "long/", clientv3.WithPrefix())))
	log.Step("clean up")(c.Delete(ctx, "long/", clientv3.WithPrefix()))
}

// chunks reads a stream as a program does that keeps only a part.
func chunks(stream clientv3.GetStreamChan, err error) ([]*mvccpb.KeyValue, error) {
	if err != nil {
		return nil, err
	}
	var kvs []*mvccpb.KeyValue
	for chunk := range stream {
		if err := chunk.Err(); err != nil {
			return nil, err
		}
		kvs = append(kvs, chunk.Kvs...)
	}
	return kvs, nil
}
