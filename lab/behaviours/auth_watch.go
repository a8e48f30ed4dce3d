package behaviours

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// watchesAsUser watches what a user may read and what not. A watch that is refused leaves others alone.
func watchesAsUser(ctx context.Context, anonymous, alice *clientv3.Client, log *transcript.Log) {
	watching(ctx, alice, log, "alice: watch", "a/", []clientv3.OpOption{clientv3.WithPrefix()}, func(allowed clientv3.WatchChan) {
		putAll(ctx, alice, "watched", "a/1")
		receive(log, "alice: watch", allowed)
		watchesEnd(ctx, alice, log, "a/1", allowed, []request{
			{"alice: denied watch of a key", "b/1", nil},
			{"alice: denied watch of a prefix", "b/", []clientv3.OpOption{clientv3.WithPrefix()}},
			{"alice: denied watch of a range that is allowed in part", "a/", []clientv3.OpOption{clientv3.WithRange("c")}},
			{"alice: denied watch of a created", "b/1", []clientv3.OpOption{clientv3.WithCreatedNotify()}},
			{"alice: denied watch of a past", "b/1", []clientv3.OpOption{clientv3.WithRev(1)}},
		})
	})
	alone := alice.Watch(ctx, "b/1")
	receive(log, "alice: denied watch alone", alone)
	receive(log, "alice: denied watch alone: end", alone)
	unknown := anonymous.Watch(ctx, "a/1")
	receive(log, "anonymous: watch", unknown)
	receive(log, "anonymous: watch: end", unknown)
}

// keepAlivesAsUser keeps a lease alive as the user whose key it has, and without a user.
func keepAlivesAsUser(ctx context.Context, anonymous, alice *clientv3.Client, log *transcript.Log) {
	id := ok(alice.Grant(ctx, 3600)).ID
	ok(alice.Put(ctx, "a/lease", "1", clientv3.WithLease(id)))
	for i, c := range []*clientv3.Client{alice, anonymous} {
		name := []string{"alice", "anonymous"}[i]
		log.Step(name + ": keep alive once")(c.KeepAliveOnce(ctx, id))
		log.Step(name + ": keep alive once, unknown lease")(c.KeepAliveOnce(ctx, 12345))
		ctx, cancel := context.WithCancel(ctx)
		responses := ok(c.KeepAlive(ctx, id))
		renewed(log, name+": keep alive", responses)
		cancel()
		ended(log, name+": keep alive: end", responses)
	}
	log.Step("alice: revoke")(alice.Revoke(ctx, id))
}
