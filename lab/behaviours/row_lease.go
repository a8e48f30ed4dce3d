package behaviours

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

var leaseRows = []Behaviour{
	row("lease", withClient("lease", leases)),
	row("lease", withClient("keepalive", keepAlives)),
	on(plain, "lease", "keys go with it", using(leaseExpires)),
	across(plain, "lease", "kept alive beyond its TTL", kept, nothing),
	on(plain, "lease", "an unknown one is refused at once", using(leaseUnknown)),
}

func leaseExpires(ctx context.Context, c *clientv3.Client) {
	watch := created(ctx, c, "/expires/a")
	lease := ok(c.Grant(ctx, 3))
	create(ctx, c, "/expires/a", "1", clientv3.WithLease(lease.ID))
	want(events(watch, 2)[1].Type == clientv3.EventTypeDelete, "no deletion")
	want(ok(c.Get(ctx, "/expires/a")).Count == 0, "it is still there")
}

// leaseUnknown shows that the client does not retry until the context ends, whatever error the server
// returns.
func leaseUnknown(ctx context.Context, c *clientv3.Client) {
	withDeadline(ctx, 10*time.Second, func(ctx context.Context) {
		_, err := c.KeepAliveOnce(ctx, 12345)
		want(err != nil && ctx.Err() == nil, "repeated until the end of the context: %v", err)
	})
}
