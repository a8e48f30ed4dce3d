package behaviours

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// wire records what a server is sent along with calls. It refuses them all, for a reason that no client tries again.
func wire(ctx context.Context, _ Site, log *transcript.Log) {
	fake := ok(fakeetcd.Start(1))
	defer fake.Close()
	for _, method := range []string{"Put", "Range", "Compact", "RoleRevokePermission", "Snapshot", "Status"} {
		fake.On(method, func(call *fakeetcd.Call) { call.Answer(nil, status.Error(codes.InvalidArgument, "refused")) })
	}
	address := fake.Member(0).Addr()
	c := ok(clientv3.New(clientv3.Config{
		Endpoints: []string{address}, DialOptions: fake.DialOptions(), Token: "token", Logger: zap.NewNop(),
	}))
	defer end(c, log)
	own := metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(ctx), "own", "1")
	log.Step("put")(c.Put(ctx, "wire", "1"))
	log.Step("get")(c.Get(own, "wire"))
	log.Step("compact")(c.Compact(ctx, 7, clientv3.WithCompactPhysical()))
	log.Step("revoke permission")(c.RoleRevokePermission(ctx, "role", "a", "b"))
	log.Step("snapshot")(whole(c.Snapshot(ctx)))
	log.Step("status")(c.Status(ctx, address))
	conn := ok(c.Dial(address))
	defer func() { log.Error("end of the dialled connection", conn.Close()) }()
	_, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{})
	log.Error("dialled", err)
	for _, call := range fake.Calls() {
		call.Metadata.Delete("user-agent")           // has grpc's version
		call.Metadata.Delete("grpc-accept-encoding") // what is compiled in
		log.Value(call.Method, []any{call.Metadata, call.Requests})
	}
}
