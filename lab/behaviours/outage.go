package behaviours

import (
	"context"
	"fmt"

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
		_, open := await(responses, name) // its revision is that of some moment
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
