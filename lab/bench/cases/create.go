package cases

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// create calls Watch for all keys at the same time. The time is that until the last call has returned.
func create(ctx context.Context, site Site) Sample {
	c := openConnected(ctx, site)
	defer func() { _ = c.Close() }()
	watches := make([]clientv3.WatchChan, site.Size)
	callers := startCallers(site.Size)
	defer callers.stop()
	start := time.Now()
	callers.watchAll(c, watches, func(i int) target { return target{ctx: ctx, key: key(i)} })
	took := time.Since(start)
	spotCheck(ctx, c, watches)
	return Sample{"time-s": took.Seconds()}
}
