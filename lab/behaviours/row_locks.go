package behaviours

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

func election(ctx context.Context, s Site, _ *transcript.Log) {
	first := concurrency.NewElection(session(s.client()), "/election/")
	second := concurrency.NewElection(session(s.client()), "/election/")
	must(first.Campaign(ctx, "one"))
	want(string(ok(first.Leader(ctx)).Kvs[0].Value) == "one", "another leader")
	seen := second.Observe(ctx)
	want(string(next(seen, "the leader").Kvs[0].Value) == "one", "another leader is observed")
	won := make(chan error, 1)
	go func() { won <- second.Campaign(ctx, "two") }()
	must(first.Proclaim(ctx, "one again"))
	must(first.Resign(ctx))
	must(<-won)
	for leader := ""; leader != "two"; {
		leader = string(next(seen, "the second leader").Kvs[0].Value)
	}
}

func session(c *clientv3.Client) *concurrency.Session {
	return ok(concurrency.NewSession(c, concurrency.WithTTL(10)))
}
