package behaviours

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/servers/site"
)

// across uses a client before, during and after an event at its server.
func across(use func(ctx context.Context, c *clientv3.Client, happen func()), happen func(context.Context, Site)) runner {
	return func(ctx context.Context, s Site, _ *transcript.Log) {
		use(ctx, s.client(), func() { happen(ctx, s) })
	}
}

// asAlice does so with authentication, as alice.
func asAlice(use func(ctx context.Context, c *clientv3.Client, happen func()), happen func(context.Context, Site)) runner {
	return func(ctx context.Context, s Site, _ *transcript.Log) {
		enable(ctx, s)
		use(ctx, s.as("alice"), func() { happen(ctx, s) })
	}
}

// expired is the age at which a token of a server of setup Tokens is no longer valid.
const expired = 3500 * time.Millisecond

// The events.
func nothing(context.Context, Site)       {}
func expire(ctx context.Context, _ Site)  { must(pause.For(ctx, expired)) }
func restart(ctx context.Context, s Site) { s.do(ctx, site.Kill, site.Restart) }

func expireAndBreak(ctx context.Context, s Site) {
	expire(ctx, s)
	s.do(ctx, site.Cut, site.Heal)
}

// calls makes calls. Nothing is sent between an event and the first call after it.
func calls(ctx context.Context, c *clientv3.Client, happen func()) {
	for range 2 {
		ok(c.Put(ctx, "/alice/calls", "1"))
		happen()
		ok(c.Get(ctx, "/alice/calls"))
	}
	happen()
	ok(c.Put(ctx, "/alice/calls", "2"))
}

// watched keeps two watches open through the events. One of them is read only at the end.
func watched(ctx context.Context, c *clientv3.Client, happen func()) {
	const times = 2
	watch, quiet := created(ctx, c, "/alice/watched/", clientv3.WithPrefix()), created(ctx, c, "/alice/watched/", clientv3.WithPrefix())
	for i := range times {
		happen()
		isSeen(ctx, c, fmt.Sprintf("/alice/watched/%d", i), watch)
	}
	events(quiet, times)
}

// isSeen waits for the server, creates a watched key, and waits for its event.
func isSeen(ctx context.Context, c *clientv3.Client, key string, watch clientv3.WatchChan) {
	untilRead(ctx, c, key)
	create(ctx, c, key, "1")
	events(watch, 1)
}

// opened opens a watch after each event.
func opened(ctx context.Context, c *clientv3.Client, happen func()) {
	ok(c.Get(ctx, "/alice/opened"))
	watches := make([]clientv3.WatchChan, 2)
	for i := range watches {
		happen()
		watches[i] = created(ctx, c, "/alice/opened")
	}
	create(ctx, c, "/alice/opened", "1")
	for _, watch := range watches {
		events(watch, 1)
	}
}

// kept keeps a lease alive for longer than its TTL.
func kept(ctx context.Context, c *clientv3.Client, happen func()) {
	lease := ok(c.Grant(ctx, 6)) // a busy machine takes its time to restart a server
	create(ctx, c, "/alice/kept", "1", clientv3.WithLease(lease.ID))
	renewals := ok(c.KeepAlive(ctx, lease.ID))
	happen()
	n := 0
	for begin := time.Now(); time.Since(begin) < 8*time.Second; n++ {
		next(renewals, "renewals")
	}
	want(n > 1, "%d renewals", n)
	want(ok(c.Get(ctx, "/alice/kept")).Count == 1, "the key is gone")
}

// locked holds a lock while another session waits for it.
func locked(ctx context.Context, c *clientv3.Client, happen func()) {
	holder := concurrency.NewMutex(session(c), "/alice/locked/")
	waiter := concurrency.NewMutex(session(c), "/alice/locked/")
	must(holder.Lock(ctx))
	locked := make(chan error, 1)
	go func() { locked <- waiter.Lock(ctx) }()
	happen()
	select {
	case err := <-locked:
		fail("two have the lock: %v", err)
	default:
	}
	until(ctx, holder.Unlock)
	must(<-locked)
	until(ctx, waiter.Unlock)
}

func session(c *clientv3.Client) *concurrency.Session {
	return ok(concurrency.NewSession(c, concurrency.WithTTL(10)))
}

// until repeats a call until it succeeds, with a bound for each try.
func until(ctx context.Context, call func(context.Context) error) {
	for {
		inner, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := call(inner)
		cancel()
		if err == nil {
			return
		}
		want(ctx.Err() == nil, "it does not work again: %v", err)
		must(pause.For(ctx, 20*time.Millisecond))
	}
}

// untilRead repeats a get until it succeeds.
func untilRead(ctx context.Context, c *clientv3.Client, key string) {
	until(ctx, func(ctx context.Context) error {
		_, err := c.Get(ctx, key)
		return err
	})
}
