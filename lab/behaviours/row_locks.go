package behaviours

import (
	"context"
	"errors"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

var locks = []Behaviour{
	across(plain, "coordination", "lock", locked, nothing),
	on(plain, "coordination", "TryLock", using(tryLock)),
	on(plain, "coordination", "election", election),
	on(plain, "coordination", "STM", using(stm)),
}

func tryLock(ctx context.Context, c *clientv3.Client) {
	first := concurrency.NewMutex(session(c), "/trylock/")
	second := concurrency.NewMutex(session(c), "/trylock/")
	must(first.TryLock(ctx))
	err := second.TryLock(ctx)
	want(errors.Is(err, concurrency.ErrLocked), "the second: %v", err)
	must(first.Unlock(ctx))
	must(second.TryLock(ctx))
}

func election(ctx context.Context, s Site) {
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

func stm(ctx context.Context, c *clientv3.Client) {
	ok(c.Put(ctx, "/stm/a", "0"))
	each(4, func(int) {
		for range 10 {
			ok(concurrency.NewSTM(c, func(stm concurrency.STM) error {
				n, err := strconv.Atoi(stm.Get("/stm/a"))
				stm.Put("/stm/a", strconv.Itoa(n+1))
				return err
			}, concurrency.WithAbortContext(ctx)))
		}
	})
	got := string(ok(c.Get(ctx, "/stm/a")).Kvs[0].Value)
	want(got == "40", "40 transactions counted to %s", got)
}

func session(c *clientv3.Client) *concurrency.Session {
	return ok(concurrency.NewSession(c, concurrency.WithTTL(10)))
}
