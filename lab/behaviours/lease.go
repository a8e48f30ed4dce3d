package behaviours

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

func leases(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	log.Step("none")(c.Leases(ctx))
	grant, err := c.Grant(ctx, 3600)
	log.Step("grant")(grant, err)
	must(err)
	log.Value("id is positive", grant.ID > 0)
	for _, ttl := range []int64{1, 0, -1, clientv3.MaxLeaseTTL, clientv3.MaxLeaseTTL + 1} {
		name := fmt.Sprintf("grant %d s", ttl)
		resp, err := c.Grant(ctx, ttl)
		log.Step(name)(resp, err)
		if err == nil { // a short one may be gone already
			_, _ = c.Revoke(ctx, resp.ID)
		}
	}

	for _, key := range []string{"lease/b", "lease/a"} {
		ok(c.Put(ctx, key, "1", clientv3.WithLease(grant.ID)))
	}
	log.Step("keys")(c.Get(ctx, "lease/", clientv3.WithPrefix()))
	ttl, err := c.TimeToLive(ctx, grant.ID)
	log.Step("time to live")(ttl, err)
	must(err)
	log.Value("time to live is near what was granted", ttl.TTL > 3500 && ttl.TTL <= 3600)
	log.Value("same id", ttl.ID == grant.ID)
	attached := ok(c.TimeToLive(ctx, grant.ID, clientv3.WithAttachedKeys()))
	log.Value("attached keys", sorted(attached.Keys))

	log.Step("revoke")(c.Revoke(ctx, grant.ID))
	log.Step("revoke again")(c.Revoke(ctx, grant.ID))
	log.Step("revoke an unknown one")(c.Revoke(ctx, 12345))
	log.Step("revoke none")(c.Revoke(ctx, clientv3.NoLease))
	log.Step("keys are gone")(c.Get(ctx, "lease/", clientv3.WithPrefix()))
	log.Step("time to live of a dead lease")(c.TimeToLive(ctx, grant.ID))
	log.Step("time to live of a dead lease, with keys")(c.TimeToLive(ctx, grant.ID, clientv3.WithAttachedKeys()))
	log.Step("time to live of none")(c.TimeToLive(ctx, clientv3.NoLease))
	log.Step("put with a dead lease")(c.Put(ctx, "lease/a", "1", clientv3.WithLease(grant.ID)))
}

func sorted(keys [][]byte) []string {
	texts := make([]string, 0, len(keys))
	for _, key := range keys {
		texts = append(texts, string(key))
	}
	slices.Sort(texts)
	return texts
}
