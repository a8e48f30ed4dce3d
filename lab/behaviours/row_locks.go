package behaviours

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

var locks = []Behaviour{
	on(plain, "coordination", "lock", lock),
	on(plain, "coordination", "TryLock", using(tryLock)),
	on(plain, "coordination", "election", election),
	on(plain, "coordination", "STM", using(stm)),
}

func lock(ctx context.Context, s Site) {
	var inside, times atomic.Int32
	each(4, func(int) {
		session := session(s.client(), 10)
		m := concurrency.NewMutex(session, "/lock/")
		for range 3 {
			must(m.Lock(ctx))
			want(inside.Add(1) == 1, "two have the lock")
			times.Add(1)
			inside.Add(-1)
			must(m.Unlock(ctx))
		}
		must(session.Close())
	})
	want(times.Load() == 12, "locked %d times", times.Load())
}

func tryLock(ctx context.Context, c *clientv3.Client) {
	first := concurrency.NewMutex(ok(concurrency.NewSession(c)), "/trylock/")
	second := concurrency.NewMutex(ok(concurrency.NewSession(c)), "/trylock/")
	must(first.TryLock(ctx))
	err := second.TryLock(ctx)
	want(errors.Is(err, concurrency.ErrLocked), "the second: %v", err)
	must(first.Unlock(ctx))
	must(second.TryLock(ctx))
}

func election(ctx context.Context, s Site) {
	first := concurrency.NewElection(ok(concurrency.NewSession(s.client())), "/election/")
	second := concurrency.NewElection(ok(concurrency.NewSession(s.client())), "/election/")
	must(first.Campaign(ctx, "one"))
	want(string(ok(first.Leader(ctx)).Kvs[0].Value) == "one", "another leader")
	seen := second.Observe(ctx)
	want(string((<-seen).Kvs[0].Value) == "one", "another leader is observed")
	won := make(chan error, 1)
	go func() { won <- second.Campaign(ctx, "two") }()
	must(first.Proclaim(ctx, "one again"))
	must(first.Resign(ctx))
	must(<-won)
	for resp := range seen {
		if string(resp.Kvs[0].Value) == "two" {
			return
		}
	}
	fail("the second leader is not observed")
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

// session makes a session whose lease lives for ttl seconds.
func session(c *clientv3.Client, ttl int) *concurrency.Session {
	return ok(concurrency.NewSession(c, concurrency.WithTTL(ttl)))
}
