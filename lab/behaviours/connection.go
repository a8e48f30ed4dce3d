package behaviours

import (
	"context"

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
