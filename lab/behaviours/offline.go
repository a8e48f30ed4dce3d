package behaviours

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/lab/behaviours/transcript"
)

func errorFunctions(ctx context.Context, _ Site, log *transcript.Log) {
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	expired, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
	defer cancel()
	errs := []error{
		nil, io.EOF, context.Canceled, context.DeadlineExceeded, errors.New("any"),
		errors.New("grpc: the client connection is closing"), fmt.Errorf("wrapped: %w", context.Canceled),
		rpctypes.ErrCompacted, rpctypes.ErrGRPCCompacted, rpctypes.ErrGRPCNoLeader, fmt.Errorf("wrapped: %w", rpctypes.ErrCompacted),
		status.Error(codes.Unavailable, "transport is closing"), status.Error(codes.Unavailable, "other"),
		status.Error(codes.Canceled, "grpc: the client connection is closing"),
		status.Error(codes.DeadlineExceeded, "expired on the server"), status.Error(codes.Internal, "broken"),
		fmt.Errorf("wrapped: %w", status.Error(codes.Canceled, "c")),
	}
	for _, err := range errs {
		name := fmt.Sprint(err)
		log.Error(name+", context lives", clientv3.ContextError(ctx, err))
		log.Error(name+", context cancelled", clientv3.ContextError(cancelled, err))
		log.Error(name+", context expired", clientv3.ContextError(expired, err))
		log.Value(name+", is a closed connection", clientv3.IsConnCanceled(err))
	}
	for _, name := range []string{"READ", "write", "ReadWrite", "", "none"} {
		log.Step("permission " + name)(clientv3.StrToPermissionType(name))
	}

	withMetadata := metadata.AppendToOutgoingContext(ctx, "key", "value", rpctypes.MetadataRequireLeaderKey, "other")
	for _, parent := range []context.Context{ctx, withMetadata, clientv3.WithRequireLeader(ctx)} {
		md, _ := metadata.FromOutgoingContext(clientv3.WithRequireLeader(parent))
		log.Value("leader required", md)
	}
	md, _ := metadata.FromOutgoingContext(withMetadata)
	log.Value("metadata of the parent", md)
}

// wire records the requests and the metadata that a server receives. The server refuses all calls with an error that
// no client retries.
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
