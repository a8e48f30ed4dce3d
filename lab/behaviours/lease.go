package behaviours

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

func leases(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	log.Step("none")(c.Leases(ctx))
	grant, err := c.Grant(ctx, 3600)
	log.Step("grant")(grant, err)
	must(err)
	log.Step("grant too much")(c.Grant(ctx, clientv3.MaxLeaseTTL+1))

	log.Step("key")(c.Put(ctx, "lease/a", "1", clientv3.WithLease(grant.ID)))
	log.Step("time to live")(c.TimeToLive(ctx, grant.ID))
	log.Step("attached keys")(c.TimeToLive(ctx, grant.ID, clientv3.WithAttachedKeys()))
	log.Step("revoke")(c.Revoke(ctx, grant.ID))
	log.Step("revoke again")(c.Revoke(ctx, grant.ID))
	log.Step("the key is gone")(c.Get(ctx, "lease/", clientv3.WithPrefix()))
	log.Step("time to live of a dead lease")(c.TimeToLive(ctx, grant.ID))
	log.Step("put with a dead lease")(c.Put(ctx, "lease/a", "1", clientv3.WithLease(grant.ID)))
}

type renewals = <-chan *clientv3.LeaseKeepAliveResponse

// renewed records the next response of a keepalive.
func renewed(log *transcript.Log, step string, responses renewals) {
	resp, _ := await(responses, step)
	log.Value(step, resp)
}

// ended waits until the channel of a keepalive, or of a watch whose watcher is closed, is closed. It skips responses: the
// official client may first send the error that ended the watch's stream.
func ended[T any](log *transcript.Log, step string, responses <-chan T) {
	awaitEnd(responses, step)
	log.Value(step, "closed")
}

// keepAlives keeps leases alive.
func keepAlives(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	id := ok(c.Grant(ctx, 9)).ID
	log.Step("once")(c.KeepAliveOnce(ctx, id))
	log.Step("once: unknown lease")(c.KeepAliveOnce(ctx, 12345))

	firstCtx, cancelFirst := context.WithCancel(ctx)
	defer cancelFirst()
	first, second := ok(c.KeepAlive(firstCtx, id)), ok(c.KeepAlive(ctx, id))
	renewed(log, "first: 1", first)
	renewed(log, "second: 1", second)
	log.Step("once, beside a keepalive")(c.KeepAliveOnce(ctx, id))
	cancelFirst()
	ended(log, "first: cancelled", first)
	for i := range 3 { // longer than the lease would live by itself
		renewed(log, fmt.Sprintf("second goes on: %d", i), second)
	}
	alive(ctx, c, log, "second goes on", id)
	log.Step("revoke")(c.Revoke(ctx, id))
	ended(log, "second: revoked", second)

	ended(log, "unknown lease", ok(c.KeepAlive(ctx, 12345)))
	ended(log, "revoked lease", ok(c.KeepAlive(ctx, id)))
}

// alive records whether a lease exists.
func alive(ctx context.Context, c *clientv3.Client, log *transcript.Log, step string, id clientv3.LeaseID) {
	resp := ok(c.TimeToLive(ctx, id))
	log.Value(step+": the lease lives", resp.TTL > 0)
}

// keepAlivesEnd ends keepalives, and the service with them.
func keepAlivesEnd(ctx context.Context, at Site, log *transcript.Log) {
	c := at.client()
	defer end(c, log)
	id := ok(c.Grant(ctx, 3600)).ID
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	ended(log, "cancelled before", ok(c.KeepAlive(cancelled, id)))
	withDeadline(ctx, 200*time.Millisecond, func(ctx context.Context) { ended(log, "expires", ok(c.KeepAlive(ctx, id))) })

	unused := clientv3.NewLease(c)
	log.Error("unused service: close", unused.Close())
	afterwards(ctx, unused, log, "unused service", id)

	for i, lease := range []clientv3.Lease{clientv3.NewLease(c), at.client()} {
		name := []string{"service", "client"}[i]
		responses := ok(lease.KeepAlive(ctx, id))
		renewed(log, name+": renewed", responses)
		log.Error(name+": close", lease.Close())
		ended(log, name+": end", responses)
		log.Error(name+": close again", lease.Close())
		afterwards(ctx, lease, log, name, id)
		log.Step(name + ": once afterwards")(lease.KeepAliveOnce(ctx, id))
	}
	alive(ctx, c, log, "afterwards", id)
}

// afterwards keeps a lease alive with a service that is closed.
func afterwards(ctx context.Context, lease clientv3.Lease, log *transcript.Log, name string, id clientv3.LeaseID) {
	responses, err := lease.KeepAlive(ctx, id)
	ended(log, name+": afterwards", responses)
	log.Error(name+": afterwards, error", err)
	_, halted := err.(clientv3.ErrKeepAliveHalted) //nolint:errorlint // programs assert it to be bare
	log.Value(name+": afterwards, halted", halted)
}

func leaseExpires(ctx context.Context, c *clientv3.Client) {
	watch := created(ctx, c, "/expires/a")
	lease := ok(c.Grant(ctx, 3))
	create(ctx, c, "/expires/a", "1", clientv3.WithLease(lease.ID))
	want(events(watch, 2)[1].Type == clientv3.EventTypeDelete, "no deletion")
	want(ok(c.Get(ctx, "/expires/a")).Count == 0, "it is still there")
}
