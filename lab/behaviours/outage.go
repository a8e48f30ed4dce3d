package behaviours

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

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
				must(at.Do(ctx, site.Kill))
				writes(ctx, writer)
				must(at.Do(ctx, site.Restart))
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

// noQuorum uses the only remaining member of a cluster. The cluster cannot be used afterwards.
func noQuorum(ctx context.Context, at Site, log *transcript.Log) {
	const timeout = 500 * time.Millisecond
	c := at.client()
	defer end(c, log)
	begun := begin(ctx, c, log)
	defer begun.end()
	log.Step("put")(c.Put(ctx, "quorum", "1"))
	receive(log, "watch", begun.watch)
	receive(log, "leader required: watch before", begun.leaderWatch)
	endpoint := at.Endpoints[0]
	must(at.Do(ctx, site.Isolate))
	c.SetEndpoints(endpoint)
	status := ok(c.Status(ctx, endpoint))
	for status.Leader != 0 { // until the member knows that it has none
		status = ok(c.Status(ctx, endpoint))
	}
	log.Value("errors in status", status.Errors)
	log.Step("serializable get")(c.Get(ctx, "quorum", clientv3.WithSerializable()))
	log.Step("serializable member list")(count(c.MemberList(ctx, clientv3.WithSerializable())))

	// Calls are cancelled: a server knows their deadline, and its own answer that it has passed may come first.
	cancelled := func(call func(context.Context)) { withCancel(ctx, timeout, call) }
	cancelled(func(ctx context.Context) { log.Step("cancelled: get")(c.Get(ctx, "quorum")) })
	cancelled(func(ctx context.Context) { log.Step("cancelled: put")(c.Put(ctx, "quorum", "2")) })
	listing := cancelled
	if strings.HasPrefix(status.Version, "3.4.") { // a member of 3.4 answers without its peers
		listing = func(call func(context.Context)) { call(ctx) }
	}
	listing(func(ctx context.Context) { log.Step("cancelled: member list")(count(c.MemberList(ctx))) })
	listing(func(ctx context.Context) { log.Error("cancelled: sync", c.Sync(ctx)) })
	// A client may or may not retry a call that was certainly not executed until the context ends, so either error is
	// right.
	leader := clientv3.WithRequireLeader
	cancelled(func(ctx context.Context) {
		log.Value("leader required, cancelled: get", noLeaderOrEnd(c.Get(leader(ctx), "quorum")))
	})
	cancelled(func(ctx context.Context) {
		log.Value("leader required, cancelled: serializable get", noLeaderOrEnd(c.Get(leader(ctx), "quorum", clientv3.WithSerializable())))
	})
	cancelled(func(ctx context.Context) {
		log.Value("leader required, cancelled: put", noLeaderOrEnd(c.Put(leader(ctx), "quorum", "2")))
	})
	cancelled(func(ctx context.Context) {
		log.Value("cancelled: keep alive once", noLeaderOrEnd(c.KeepAliveOnce(ctx, begun.id)))
	})
	begun.lost(log)
	cancelled(func(ctx context.Context) { receive(log, "cancelled: watch", c.Watch(ctx, "quorum")) })
	watch := c.Watch(leader(ctx), "quorum")
	receive(log, "leader required: watch", watch)
	receive(log, "leader required: watch: end", watch)
}

// begun has the watches and keepalives of a program that loses its cluster, of a caller who requires a leader and of
// one who does not.
type begun struct {
	end                       context.CancelFunc
	id                        clientv3.LeaseID
	watch, leaderWatch        clientv3.WatchChan
	keepalive, leaderRequired renewals
}

func begin(ctx context.Context, c *clientv3.Client, log *transcript.Log) *begun {
	ctx, cancel := context.WithCancel(ctx)
	b := &begun{end: cancel, id: ok(c.Grant(ctx, 3600)).ID}
	leader := clientv3.WithRequireLeader(ctx)
	b.watch, b.leaderWatch = c.Watch(ctx, "quorum"), c.Watch(leader, "quorum")
	b.keepalive, b.leaderRequired = ok(c.KeepAlive(ctx, b.id)), ok(c.KeepAlive(leader, b.id))
	renewed(log, "begun: keepalive", b.keepalive)
	return b
}

// lost records which of them have ended: those who require a leader.
func (b *begun) lost(log *transcript.Log) {
	receive(log, "leader required: watch that was there", b.leaderWatch)
	receive(log, "leader required: watch that was there: end", b.leaderWatch)
	ended(log, "leader required: keepalive", b.leaderRequired)
	log.Value("watch that was there: over", over(b.watch))
	log.Value("keepalive: over", over(b.keepalive))
	b.end()
	receive(log, "watch that was there: end", b.watch)
	ended(log, "keepalive: end", b.keepalive)
}

func noLeaderOrEnd(_ any, err error) bool {
	return err == rpctypes.ErrNoLeader || err == context.Canceled //nolint:errorlint // programs compare with ==
}

// count returns the number of members: a cluster's order of them is its own.
func count(resp *clientv3.MemberListResponse, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(resp.Members), nil
}

// over reports whether a channel is closed, passing over what is in it.
func over[T any](ch <-chan T) bool {
	for {
		select {
		case _, open := <-ch:
			if !open {
				return true
			}
		default:
			return false
		}
	}
}
