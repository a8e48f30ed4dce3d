package behaviours

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var maintenanceRows = []Behaviour{
	on(plain, "maintenance", "status and members", using(serverStatus)),
	row("maintenance", withClient("hash", hashes)),
	row("maintenance", withClient("maintenance", maintenance)),
	row("maintenance", withClient("alarm", alarms)),
	row("maintenance", withClient("snapshot", snapshots)),
	long(on(quota, "maintenance", "quota exceeded, and freed", using(quotaExceeded))),
}

func serverStatus(ctx context.Context, c *clientv3.Client) {
	status := ok(c.Status(ctx, c.Endpoints()[0]))
	want(status.Version != "" && status.DbSize >= 0, "got %v", status)
	list := ok(c.MemberList(ctx))
	want(len(list.Members) == 1 && len(list.Members[0].ClientURLs) > 0, "got %v", list.Members)
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
