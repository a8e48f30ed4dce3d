package behaviours

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// connections uses the client's gRPC connections with generated clients.
func connections(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	raw := pb.NewKVClient(c.ActiveConnection())
	log.Step("put on the active connection")(raw.Put(ctx, &pb.PutRequest{Key: []byte("raw"), Value: []byte("1")}))
	log.Step("error on the active connection")(raw.Put(ctx, &pb.PutRequest{}))
	conn := ok(c.Dial(c.Endpoints()[0]))
	dialled := pb.NewKVClient(conn)
	log.Step("range on a dialled connection")(dialled.Range(ctx, &pb.RangeRequest{Key: []byte("raw")}))
	log.Error("close a dialled connection", conn.Close())
	_, err := dialled.Range(ctx, &pb.RangeRequest{Key: []byte("raw")})
	log.Value("closed connection", clientv3.IsConnCanceled(err))
	log.Step("the client goes on")(c.Get(ctx, "raw"))
}

// constructors builds every service over raw gRPC clients.
func constructors(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	conn := c.ActiveConnection()
	for _, client := range []*clientv3.Client{c, nil} {
		name := "with a client: "
		if client == nil {
			name = "without a client: "
		}
		kv := clientv3.NewKVFromKVClient(pb.NewKVClient(conn), client)
		log.Step(name + "KV")(kv.Put(ctx, "constructors", "1"))
		log.Step(name + "KV error")(kv.Get(ctx, "constructors", clientv3.WithRev(1<<40)))
		lease := clientv3.NewLeaseFromLeaseClient(pb.NewLeaseClient(conn), client, time.Second)
		log.Step(name + "lease")(lease.Grant(ctx, 3600))
		renewed(log, name+"lease kept alive", ok(lease.KeepAlive(ctx, ok(c.Grant(ctx, 3600)).ID)))
		log.Error(name+"lease close", lease.Close())
		cluster := clientv3.NewClusterFromClusterClient(pb.NewClusterClient(conn), client)
		log.Step(name + "cluster")(cluster.MemberList(ctx))
		watcher := clientv3.NewWatchFromWatchClient(pb.NewWatchClient(conn), client)
		watch := watcher.Watch(ctx, "constructors")
		putAll(ctx, c, name, "constructors")
		receive(log, name+"watch", watch)
		log.Error(name+"watch close", watcher.Close())
		ended(log, name+"watch end", watch)
		auth := clientv3.NewAuthFromAuthClient(pb.NewAuthClient(conn), client)
		log.Step(name + "auth")(auth.AuthStatus(ctx))
	}
	upkeep := clientv3.NewMaintenanceFromMaintenanceClient(pb.NewMaintenanceClient(conn), c)
	log.Step("maintenance")(upkeep.Status(ctx, "ignored"))

	retryKV := clientv3.RetryKVClient(c)
	log.Step("retry KV")(retryKV.Range(ctx, &pb.RangeRequest{Key: []byte("constructors")}))
	log.Step("retry lease")(clientv3.RetryLeaseClient(c).LeaseLeases(ctx, &pb.LeaseLeasesRequest{}))
	log.Step("retry cluster")(clientv3.RetryClusterClient(c).MemberList(ctx, &pb.MemberListRequest{}))
	log.Step("retry maintenance")(clientv3.RetryMaintenanceClient(c, conn).Status(ctx, &pb.StatusRequest{}))
	log.Step("retry auth")(clientv3.RetryAuthClient(c).AuthStatus(ctx, &pb.AuthStatusRequest{}))
}
