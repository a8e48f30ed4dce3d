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

func streams(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	first := seed(ctx, c, "stream/")
	prefix := clientv3.WithPrefix()
	reads := []request{
		{"key", "stream/a", nil},
		{"missing key", "stream/none", nil},
		{"empty key", "", nil},
		{"prefix", "stream/", []clientv3.OpOption{prefix}},
		{"empty range", "stream/z", []clientv3.OpOption{clientv3.WithRange("stream/a")}},
		{"from key", "stream/d", []clientv3.OpOption{clientv3.WithFromKey()}},
		{"limit", "stream/", []clientv3.OpOption{prefix, clientv3.WithLimit(2)}},
		{"limit that is met", "stream/", []clientv3.OpOption{prefix, clientv3.WithLimit(5)}},
		{"revision", "stream/", []clientv3.OpOption{prefix, clientv3.WithRev(first + 3)}},
		{"future revision", "stream/", []clientv3.OpOption{prefix, clientv3.WithRev(1 << 40)}},
		{"keys only", "stream/", []clientv3.OpOption{prefix, clientv3.WithKeysOnly()}},
		{"count only", "stream/", []clientv3.OpOption{prefix, clientv3.WithCountOnly()}},
		{"serializable", "stream/", []clientv3.OpOption{prefix, clientv3.WithSerializable()}},
		{"sort by key, ascending", "stream/", []clientv3.OpOption{prefix, clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend)}},
		{"sort by key, descending", "stream/", []clientv3.OpOption{prefix, clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend)}},
		{"sort by value", "stream/", []clientv3.OpOption{prefix, clientv3.WithSort(clientv3.SortByValue, clientv3.SortAscend)}},
		{"invalid sort", "stream/", []clientv3.OpOption{prefix, clientv3.WithSort(99, clientv3.SortAscend)}},
		{"mod revision", "stream/", []clientv3.OpOption{prefix, clientv3.WithMinModRev(first + 5)}},
		{"create revision", "stream/", []clientv3.OpOption{prefix, clientv3.WithMaxCreateRev(first + 2)}},
	}
	for _, r := range reads {
		log.Step(r.name)(gather(c.GetStream(ctx, r.key, r.opts...)))
	}
	log.Panic("prefix and from key", func() { _, _ = c.GetStream(ctx, "stream/", prefix, clientv3.WithFromKey()) })
	longStreams(ctx, c, log)
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
