package behaviours

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// progress requests progress, and waits for notifications.
func progress(ctx context.Context, c *clientv3.Client) {
	watch := created(ctx, c, "/progress/a")
	rev := create(ctx, c, "/progress/a", "1")
	events(watch, 1)
	for reached := false; !reached; {
		must(c.RequestProgress(ctx))
		select {
		case resp := <-watch:
			must(resp.Err())
			reached = resp.IsProgressNotify() && resp.Header.Revision >= rev
		case <-time.After(100 * time.Millisecond): // a server need not answer before its watchers are synchronized
			must(ctx.Err())
		}
	}
	notified := created(ctx, c, "/progress/b", clientv3.WithProgressNotify())
	rev = create(ctx, c, "/progress/c", "1")
	for reached := false; !reached; {
		resp := next(notified, "progress")
		must(resp.Err())
		want(len(resp.Events) == 0, "events %v", resp.Events)
		reached = resp.Header.Revision >= rev
	}
}
