package behaviours

import (
	"context"
	"fmt"
	"time"

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

// watchEnds ends watches in every way that a program can.
func watchEnds(ctx context.Context, at Site, log *transcript.Log) {
	c := at.client()
	defer end(c, log)
	watching(ctx, c, log, "neighbour", "ends", nil, func(neighbour clientv3.WatchChan) {
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		receive(log, "cancelled before", c.Watch(cancelled, "ends"))
		expired, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
		defer cancel()
		receive(log, "expired before", c.Watch(expired, "ends"))
		withDeadline(ctx, 200*time.Millisecond, func(ctx context.Context) { receive(log, "expires", c.Watch(ctx, "ends")) })
		withCancel(ctx, 200*time.Millisecond, func(ctx context.Context) {
			receive(log, "is cancelled", c.Watch(ctx, "ends", clientv3.WithPrefix()))
		})
		putAll(ctx, c, "1", "ends")
		receive(log, "neighbour goes on", neighbour)
	})
	watcherCloses(ctx, c, log)

	closing := at.client()
	watch := closing.Watch(ctx, "ends")
	own := clientv3.NewWatcher(closing)
	log.Error("client: close", closing.Close())
	ended(log, "client: watch", watch)
	receive(log, "client: watch afterwards", closing.Watch(ctx, "ends"))
	log.Error("client: request progress afterwards", closing.RequestProgress(ctx))
	log.Error("client: close of a watcher of its own", own.Close())
}

// watcherCloses closes a watcher apart from its client.
func watcherCloses(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	w := clientv3.NewWatcher(c)
	watches := []clientv3.WatchChan{
		w.Watch(ctx, "ends"),
		w.Watch(ctx, "ends/", clientv3.WithPrefix()),
		w.Watch(clientv3.WithRequireLeader(ctx), "ends"),
	}
	putAll(ctx, c, "1", "ends")
	receive(log, "watcher: event", watches[0])
	receive(log, "watcher: event, leader required", watches[2])
	log.Error("watcher: close", w.Close())
	for i, watch := range watches {
		ended(log, fmt.Sprintf("watcher: watch %d", i), watch)
	}
	log.Error("watcher: close again", w.Close())
	receive(log, "watcher: watch afterwards", w.Watch(ctx, "ends"))
	log.Error("watcher: request progress afterwards", w.RequestProgress(ctx))
	log.Error("watcher: close of one that was not used", clientv3.NewWatcher(c).Close())
}
