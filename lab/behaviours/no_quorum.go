package behaviours

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/servers/site"
)

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
