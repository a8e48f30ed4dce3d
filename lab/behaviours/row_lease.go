package behaviours

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var leaseRows = []Behaviour{
	on(plain, "lease", "keys go with it", using(leaseExpires)),
	on(plain, "lease", "kept alive beyond its TTL", using(leaseKept)),
	on(plain, "lease", "time to live, list, revoke", using(leaseAsked)),
	on(plain, "lease", "renewed once", using(leaseOnce)),
	on(plain, "lease", "renewed once, refused at once where it is not known", using(leaseUnknown)),
	on(plain, "lease", "its end closes the channel", using(leaseEnds)),
}

func leaseExpires(ctx context.Context, c *clientv3.Client) {
	watch := created(ctx, c, "/expires/a")
	lease := ok(c.Grant(ctx, 3))
	create(ctx, c, "/expires/a", "1", clientv3.WithLease(lease.ID))
	want(events(ctx, watch, 2)[1].Type == clientv3.EventTypeDelete, "no deletion")
	want(ok(c.Get(ctx, "/expires/a")).Count == 0, "it is still there")
}

func leaseKept(ctx context.Context, c *clientv3.Client) {
	lease := ok(c.Grant(ctx, 4))
	kept := ok(c.KeepAlive(ctx, lease.ID))
	create(ctx, c, "/kept/a", "1", clientv3.WithLease(lease.ID))
	renewedFor(ctx, kept, 6*time.Second)
	want(ok(c.Get(ctx, "/kept/a")).Count == 1, "the key is gone")
}

func leaseAsked(ctx context.Context, c *clientv3.Client) {
	lease := ok(c.Grant(ctx, 600))
	create(ctx, c, "/asked/a", "1", clientv3.WithLease(lease.ID))
	left := ok(c.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys()))
	want(left.TTL > 500 && left.GrantedTTL == 600 && len(left.Keys) == 1, "time to live %v", left)
	listed := false
	for _, l := range ok(c.Leases(ctx)).Leases {
		listed = listed || l.ID == lease.ID
	}
	want(listed, "it is not listed")
	ok(c.Revoke(ctx, lease.ID))
	want(ok(c.Get(ctx, "/asked/a")).Count == 0, "the key is still there")
	_, err := c.Revoke(ctx, lease.ID)
	want(errors.Is(err, rpctypes.ErrLeaseNotFound), "revoked twice: %v", err)
	want(ok(c.TimeToLive(ctx, lease.ID)).TTL == -1, "time to live of one that is gone")
}

func leaseOnce(ctx context.Context, c *clientv3.Client) {
	lease := ok(c.Grant(ctx, 600))
	want(ok(c.KeepAliveOnce(ctx, lease.ID)).TTL == 600, "another TTL")
}

// leaseUnknown shows that the client does not ask again until the context ends, whatever the server says.
func leaseUnknown(ctx context.Context, c *clientv3.Client) {
	inner, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := c.KeepAliveOnce(inner, 12345)
	want(err != nil && inner.Err() == nil, "repeated until the end of the context: %v", err)
}

func leaseEnds(ctx context.Context, c *clientv3.Client) {
	lease := ok(c.Grant(ctx, 3))
	kept := ok(c.KeepAlive(ctx, lease.ID))
	<-kept
	ok(c.Revoke(ctx, lease.ID))
	awaitEnd(ctx, kept, "the channel of renewals")
}
