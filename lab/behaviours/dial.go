package behaviours

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// interceptors gives the client dial options of the program's own.
func interceptors(ctx context.Context, at Site, log *transcript.Log) {
	var mu sync.Mutex
	var calls []string
	var headers []metadata.MD
	note := func(ctx context.Context, method string) {
		md, _ := metadata.FromOutgoingContext(ctx)
		mu.Lock()
		defer mu.Unlock()
		calls, headers = append(calls, method), append(headers, md)
	}
	cfg := at.config()
	cfg.DialOptions = []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			note(ctx, method)
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			note(ctx, method)
			return open(ctx, desc, cc, method, opts...)
		}),
		grpc.WithUserAgent("program"),
	}
	c := ok(clientv3.New(cfg))
	defer end(c, log)
	log.Step("put")(c.Put(ctx, "interceptors", "1"))
	log.Step("get")(c.Get(clientv3.WithRequireLeader(ctx), "interceptors"))
	log.Step("txn")(c.Txn(metadata.AppendToOutgoingContext(ctx, "own", "1")).Then(clientv3.OpGet("interceptors")).Commit())
	log.Step("failing put")(c.Put(ctx, "", ""))
	log.Step("time to live")(c.TimeToLive(ctx, 1))
	log.Step("snapshot")(whole(c.Snapshot(ctx)))
	mu.Lock()
	defer mu.Unlock()
	log.Value("calls", calls)
	log.Value("API version", headers[0][rpctypes.MetadataClientAPIVersionKey])
	for _, header := range headers {
		header.Delete(rpctypes.MetadataClientAPIVersionKey)
	}
	log.Value("metadata", headers)
}

// files connects with a configuration that was read from a specification.
func files(ctx context.Context, at Site, log *transcript.Log) {
	specs := map[string]*clientv3.SecureConfig{
		"CA and certificate": {Cacert: at.Files.CA, Cert: at.Files.ClientCert, Key: at.Files.ClientKey},
		"no verification":    {InsecureSkipVerify: true},
		"insecure":           {InsecureTransport: true},
		"server name":        {Cacert: at.Files.CA, ServerName: "localhost"},
		"wrong server name":  {Cacert: at.Files.CA, ServerName: "wrong"},
		"no CA":              {},
		"none":               nil,
	}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		spec := &clientv3.ConfigSpec{Endpoints: at.Endpoints, Secure: specs[name]}
		cfg := ok(clientv3.NewClientConfig(spec, zap.NewNop()))
		cfg.Logger = zap.NewNop()
		logConfig(log, name, cfg)
		c := ok(clientv3.New(*cfg))
		// The name in the certificate is to be that of the endpoint, whatever the server name of the configuration.
		if refused := at.Files.CA != "" && slices.Contains([]string{"no CA", "none", "insecure"}, name); refused {
			withDeadline(ctx, 300*time.Millisecond, func(ctx context.Context) { log.Step(name + ", expires: get")(c.Get(ctx, "files")) })
		} else {
			log.Step(name + ": get")(c.Get(ctx, "files"))
		}
		log.Error(name+": close", c.Close())
	}
}

// closes uses clients after their end.
func closes(ctx context.Context, at Site, log *transcript.Log) {
	c := at.client()
	log.Step("get")(c.Get(ctx, "close"))
	conn := c.ActiveConnection()
	log.Error("close", c.Close())
	log.Error("context", c.Ctx().Err())
	log.Error("close again", c.Close())
	_, err := c.Get(ctx, "close")
	log.Error("get after close", err)
	log.Value("get after close: connection is closed", clientv3.IsConnCanceled(err))
	_, err = c.Snapshot(ctx)
	log.Value("snapshot after close fails", err != nil)
	log.Value("connection", conn.GetState().String())
}
