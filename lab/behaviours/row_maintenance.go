package behaviours

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var maintenanceRows = []Behaviour{
	on(plain, "maintenance", "status", using(serverStatus)),
	on(plain, "maintenance", "members", using(memberList)),
	on(own, "maintenance", "hash, defragmentation, alarms", using(housekeeping)),
	on(own, "maintenance", "snapshot", using(snapshot)),
	long(on(quota, "maintenance", "quota exceeded, and freed", using(quotaExceeded))),
}

func serverStatus(ctx context.Context, c *clientv3.Client) {
	got := ok(c.Status(ctx, c.Endpoints()[0]))
	want(got.Version != "" && got.DbSize >= 0, "got %v", got)
}

func memberList(ctx context.Context, c *clientv3.Client) {
	got := ok(c.MemberList(ctx))
	want(len(got.Members) == 1 && len(got.Members[0].ClientURLs) > 0, "got %v", got.Members)
}

func housekeeping(ctx context.Context, c *clientv3.Client) {
	create(ctx, c, "/housekeeping/a", "1")
	want(ok(c.HashKV(ctx, c.Endpoints()[0], 0)).Hash != 0, "no hash")
	ok(c.Defragment(ctx, c.Endpoints()[0]))
	want(len(ok(c.AlarmList(ctx)).Alarms) == 0, "alarms")
	want(ok(c.Get(ctx, "/housekeeping/a")).Count == 1, "the key is gone")
}

func snapshot(ctx context.Context, c *clientv3.Client) {
	for i := range 20 {
		create(ctx, c, fmt.Sprintf("/snapshot/%d", i), strings.Repeat("x", 100<<10))
	}
	content := ok(io.ReadAll(ok(c.Snapshot(ctx))))
	n := len(content) - sha256.Size
	want(n > 2<<20, "%d bytes", n)
	sum := sha256.Sum256(content[:n])
	want(bytes.Equal(sum[:], content[n:]), "another digest")
}

func quotaExceeded(ctx context.Context, c *clientv3.Client) {
	value := strings.Repeat("x", 1<<20)
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		_, err = c.Put(ctx, fmt.Sprintf("/quota/%d", i), value)
	}
	want(errors.Is(err, rpctypes.ErrNoSpace), "100 MB in 16: %v", err)
	got := ok(c.Get(ctx, "/quota/0", clientv3.WithKeysOnly()))
	want(got.Count == 1, "it is not read")
	deleted := ok(c.Delete(ctx, "/quota/", clientv3.WithPrefix()))
	ok(c.Compact(ctx, deleted.Header.Revision))
	ok(c.Defragment(ctx, c.Endpoints()[0]))
	ok(c.AlarmDisarm(ctx, &clientv3.AlarmMember{}))
	ok(c.Put(ctx, "/quota/0", "1"))
}
