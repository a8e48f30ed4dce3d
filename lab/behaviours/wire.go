package behaviours

import (
	"context"
	"net"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// recorder is a gRPC server that refuses every call, for a reason that no client tries again, and notes the metadata.
type recorder struct {
	mu    sync.Mutex
	calls []metadata.MD
}

func (r *recorder) refuse(_ any, stream grpc.ServerStream) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	method, _ := grpc.MethodFromServerStream(stream)
	md = md.Copy()
	md.Set("method", method)
	for _, own := range []string{"user-agent", "grpc-accept-encoding"} { // grpc's version, and what is compiled in
		md.Delete(own)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, md)
	return status.Error(codes.InvalidArgument, "refused")
}

// wire records what a server is sent along with calls.
func wire(ctx context.Context, _ Site, log *transcript.Log) {
	listener := ok(net.Listen("tcp", "127.0.0.1:0"))
	address := listener.Addr().String()
	log.Alias(address, "server")
	r := &recorder{}
	server := grpc.NewServer(grpc.UnknownServiceHandler(r.refuse))
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // it ends with Stop
	}()
	defer func() {
		server.Stop()
		<-served
	}()

	c := ok(clientv3.New(clientv3.Config{Endpoints: []string{address}, Token: "token", Logger: zap.NewNop()}))
	defer end(c, log)
	own := metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(ctx), "own", "1")
	log.Step("put")(c.Put(ctx, "wire", "1"))
	log.Step("get")(c.Get(own, "wire"))
	log.Step("snapshot")(whole(c.Snapshot(ctx)))
	log.Step("status")(c.Status(ctx, address))
	conn := ok(c.Dial(address))
	defer func() { log.Error("end of the dialled connection", conn.Close()) }()
	_, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{})
	log.Error("dialled", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	log.Value("calls", slices.Clone(r.calls))
}
