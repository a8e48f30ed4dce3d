package behaviours

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// watchProgress requests progress, and waits for notifications. A request reaches only watches with the same metadata.
func watchProgress(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	contexts := []struct {
		name string
		ctx  context.Context
	}{
		{"plain", ctx},
		{"leader required", clientv3.WithRequireLeader(ctx)},
		{"metadata", metadata.AppendToOutgoingContext(ctx, "key", "value")},
		{"other metadata", metadata.AppendToOutgoingContext(ctx, "key", "other")},
	}
	watches := make(map[string]clientv3.WatchChan)
	for _, w := range contexts {
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		watches[w.name] = c.Watch(ctx, "progress/", clientv3.WithPrefix())
	}
	for _, asked := range contexts {
		log.Error(asked.name+": request", c.RequestProgress(asked.ctx))
		receive(log, asked.name+": progress", watches[asked.name])
		putAll(ctx, c, asked.name, "progress/"+asked.name)
		for _, w := range contexts {
			receive(log, asked.name+": "+w.name, watches[w.name])
		}
	}
	log.Error("metadata without a watch", c.RequestProgress(metadata.AppendToOutgoingContext(ctx, "key", "none")))
	neither := []clientv3.OpOption{clientv3.WithFilterPut(), clientv3.WithFilterDelete()}
	watching(ctx, c, log, "neither puts nor deletes", "progress/", neither, func(watch clientv3.WatchChan) {
		putAll(ctx, c, "1", "progress/")
		log.Error("neither puts nor deletes: request", c.RequestProgress(ctx))
		receive(log, "neither puts nor deletes", watch)
	})
}
