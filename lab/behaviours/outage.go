package behaviours

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/servers/site"
)

// outage watches, and keeps a lease alive, at a member that goes and comes back. Another client writes all the while.
func outage(ctx context.Context, at Site, log *transcript.Log) {
	c, writer := at.with(at.Endpoints[:1]).client(), at.with(at.Endpoints[1:]).client()
	defer end(writer, log)
	defer end(c, log)
	first := putAll(ctx, writer, "before", "outage/read", "outage/unread")
	ok(c.Get(ctx, "outage/")) // the member has what was written
	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithPrevKV()}
	id := ok(writer.Grant(ctx, 30)).ID // a busy machine takes its time to restart a member
	responses := ok(c.KeepAlive(ctx, id))
	renewed(log, "keepalive before", responses)

	watching(ctx, c, log, "quiet", "outage/", opts, func(quiet clientv3.WatchChan) {
		watching(ctx, c, log, "past", "outage/", append(opts, clientv3.WithRev(first)), func(past clientv3.WatchChan) {
			watching(ctx, c, log, "future", "outage/", append(opts, clientv3.WithRev(first+5)), func(future clientv3.WatchChan) {
				log.Value("past: before", events(past, 1))
				at.do(ctx, site.Kill)
				writes(ctx, writer)
				at.do(ctx, site.Restart)
				putAll(ctx, writer, "after", "outage/after")
				log.Value("quiet: events", eventsUpTo(quiet, "outage/after"))
				log.Value("past: events", events(past, 12))
				log.Value("future: events", events(future, 8))
			})
		})
	})
	for i := range 2 {
		name := fmt.Sprintf("keepalive after: %d", i)
		_, open := await(responses, name) // its revision is arbitrary
		log.Value(name, open)
	}
	alive(ctx, writer, log, "keepalive after", id)
}

// writes makes eleven events in nine revisions.
func writes(ctx context.Context, c *clientv3.Client) {
	putAll(ctx, c, "1", "outage/a", "outage/b", "outage/a", "outage/c")
	ok(c.Txn(ctx).Then(clientv3.OpPut("outage/t", "1"), clientv3.OpDelete("outage/c"), clientv3.OpPut("outage/a", "2")).Commit())
	ok(c.Delete(ctx, "outage/b"))
	putAll(ctx, c, "2", "outage/b", "outage/b", "outage/b")
}

// noQuorum uses the only remaining member of a cluster, with the watches and keepalives of a program that loses its
// cluster, of a caller who requires a leader and of one who does not. The cluster cannot be used afterwards.
func noQuorum(ctx context.Context, at Site, log *transcript.Log) {
	const timeout = 500 * time.Millisecond
	c := at.client()
	defer end(c, log)
	id := ok(c.Grant(ctx, 3600)).ID
	leader := clientv3.WithRequireLeader
	begun, stop := context.WithCancel(ctx)
	defer stop()
	watch, leaderWatch := c.Watch(begun, "quorum"), c.Watch(leader(begun), "quorum")
	keepalive, leaderKeepalive := ok(c.KeepAlive(begun, id)), ok(c.KeepAlive(leader(begun), id))
	renewed(log, "begun: keepalive", keepalive)
	log.Step("put")(c.Put(ctx, "quorum", "1"))
	receive(log, "watch", watch)
	receive(log, "leader required: watch before", leaderWatch)
	endpoint := at.Endpoints[0]
	at.do(ctx, site.Isolate)
	c.SetEndpoints(endpoint)
	status := ok(c.Status(ctx, endpoint))
	for status.Leader != 0 { // until the member knows that it has none
		must(pause.For(ctx, 50*time.Millisecond))
		status = ok(c.Status(ctx, endpoint))
	}
	log.Value("errors in status", status.Errors)
	log.Step("serializable get")(c.Get(ctx, "quorum", clientv3.WithSerializable()))

	// Calls are cancelled: a server knows their deadline, and its own answer that it has passed may come first.
	cancelled := func(call func(context.Context)) { withCancel(ctx, timeout, call) }
	cancelled(func(ctx context.Context) { log.Step("cancelled: get")(c.Get(ctx, "quorum")) })
	cancelled(func(ctx context.Context) { log.Step("cancelled: put")(c.Put(ctx, "quorum", "2")) })
	// A client may or may not retry a call that was certainly not executed until the context ends, so either error is
	// right.
	cancelled(func(ctx context.Context) {
		log.Value("leader required, cancelled: get", noLeaderOrEnd(c.Get(leader(ctx), "quorum")))
	})
	cancelled(func(ctx context.Context) {
		log.Value("cancelled: keep alive once", noLeaderOrEnd(c.KeepAliveOnce(ctx, id)))
	})

	receive(log, "leader required: watch that was there", leaderWatch)
	receive(log, "leader required: watch that was there: end", leaderWatch)
	ended(log, "leader required: keepalive", leaderKeepalive)
	stop()
	receive(log, "watch that was there: end", watch)
	ended(log, "keepalive: end", keepalive)
	cancelled(func(ctx context.Context) { receive(log, "cancelled: watch", c.Watch(ctx, "quorum")) })
	watch = c.Watch(leader(ctx), "quorum")
	receive(log, "leader required: watch", watch)
	receive(log, "leader required: watch: end", watch)
}

func noLeaderOrEnd(_ any, err error) bool {
	return err == rpctypes.ErrNoLeader || err == context.Canceled //nolint:errorlint // programs compare with ==
}
