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
	c, writer := openAt(at, log, at.Endpoints[:1]), openAt(at, log, at.Endpoints[1:])
	defer end(writer, log)
	defer end(c, log)
	first := putAll(ctx, writer, log, "before", "outage/read", "outage/unread")
	_, err := c.Get(ctx, "outage/") // the member has what was written
	log.Must(err)
	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithPrevKV()}
	id := grant(ctx, writer, log, 30) // a busy machine takes its time to restart a member
	responses := keep(ctx, c, log, id)
	renewed(log, "keepalive before", responses)

	watching(ctx, c, log, "quiet", "outage/", opts, func(quiet clientv3.WatchChan) {
		watching(ctx, c, log, "past", "outage/", append(opts, clientv3.WithRev(first)), func(past clientv3.WatchChan) {
			watching(ctx, c, log, "future", "outage/", append(opts, clientv3.WithRev(first+5)), func(future clientv3.WatchChan) {
				log.Value("past: before", gatherEvents(log, past, 1))
				log.Must(at.Do(ctx, site.Kill))
				writes(ctx, writer, log)
				log.Must(at.Do(ctx, site.Restart))
				putAll(ctx, writer, log, "after", "outage/after")
				log.Value("quiet: events", gatherUntil(log, quiet, "outage/after"))
				log.Value("past: events", gatherEvents(log, past, 12))
				log.Value("future: events", gatherEvents(log, future, 8))
			})
		})
	})
	for i := range 2 {
		log.Value(fmt.Sprintf("keepalive after: %d", i), renewal(log, responses) != nil) // its revision is that of some moment
	}
	alive(ctx, writer, log, "keepalive after", id)
}

// writes makes eleven events in nine revisions.
func writes(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	putAll(ctx, c, log, "1", "outage/a", "outage/b", "outage/a", "outage/c")
	_, err := c.Txn(ctx).Then(clientv3.OpPut("outage/t", "1"), clientv3.OpDelete("outage/c"), clientv3.OpPut("outage/a", "2")).Commit()
	log.Must(err)
	_, err = c.Delete(ctx, "outage/b")
	log.Must(err)
	putAll(ctx, c, log, "2", "outage/b", "outage/b", "outage/b")
}

func openAt(at Site, log *transcript.Log, endpoints []string) *clientv3.Client {
	cfg := at.config()
	cfg.Endpoints = endpoints
	c, err := clientv3.New(cfg)
	log.Must(err)
	return c
}
