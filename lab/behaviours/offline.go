package behaviours

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
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

// facts returns what the accessors of an Op say: all methods without parameters, but for those that only Quorate has.
func facts(op clientv3.Op) map[string]any {
	all := make(map[string]any)
	for method, value := range reflect.ValueOf(op).Methods() {
		if method.Type.NumIn() > 1 || method.Name == "LeaseID" || method.Name == "SortOption" {
			continue
		}
		for i, result := range value.Call(nil) {
			all[fmt.Sprint(method.Name, i)] = result.Interface()
		}
	}
	return all
}

// option is an OpOption with its name.
type option struct {
	name string
	opt  clientv3.OpOption
}

func options() []option {
	return []option{
		{"WithLease", clientv3.WithLease(7)},
		{"WithLimit", clientv3.WithLimit(7)},
		{"WithRev", clientv3.WithRev(7)},
		{"WithSort", clientv3.WithSort(clientv3.SortByValue, clientv3.SortDescend)},
		{"WithSort by key", clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend)},
		{"WithSort of an unknown target", clientv3.WithSort(-1, clientv3.SortAscend)},
		{"WithSort of an unknown order", clientv3.WithSort(clientv3.SortByKey, 3)},
		{"WithPrefix", clientv3.WithPrefix()},
		{"WithRange", clientv3.WithRange("z")},
		{"WithRange to nothing", clientv3.WithRange("")},
		{"WithFromKey", clientv3.WithFromKey()},
		{"WithSerializable", clientv3.WithSerializable()},
		{"WithKeysOnly", clientv3.WithKeysOnly()},
		{"WithCountOnly", clientv3.WithCountOnly()},
		{"WithMinModRev", clientv3.WithMinModRev(7)},
		{"WithMaxModRev", clientv3.WithMaxModRev(7)},
		{"WithMinCreateRev", clientv3.WithMinCreateRev(7)},
		{"WithMaxCreateRev", clientv3.WithMaxCreateRev(7)},
		{"WithProgressNotify", clientv3.WithProgressNotify()},
		{"WithCreatedNotify", clientv3.WithCreatedNotify()},
		{"WithFilterPut", clientv3.WithFilterPut()},
		{"WithFilterDelete", clientv3.WithFilterDelete()},
		{"WithPrevKV", clientv3.WithPrevKV()},
		{"WithFragment", clientv3.WithFragment()},
		{"WithIgnoreValue", clientv3.WithIgnoreValue()},
		{"WithIgnoreLease", clientv3.WithIgnoreLease()},
		{"WithWatchBufLog", clientv3.WithWatchBufLog()},
	}
}

func ops(_ context.Context, _ Site, log *transcript.Log) {
	log.Value("zero op", facts(clientv3.Op{}))
	log.Value("new op", facts(*clientv3.NewOp()))
	log.Value("put", facts(clientv3.OpPut("k", "v")))
	log.Value("delete", facts(clientv3.OpDelete("k")))
	for _, key := range []string{"", "k", "k\xff", "\xff\xff", "\x00"} {
		for _, o := range options() {
			log.Value(fmt.Sprintf("get %q %s", key, o.name), facts(clientv3.OpGet(key, o.opt)))
		}
		log.Value(fmt.Sprintf("end of prefix %q", key), clientv3.GetPrefixRangeEnd(key))
	}
	for _, o := range options() {
		opts := []clientv3.OpOption{o.opt}
		log.Value("is prefix: "+o.name, clientv3.IsOptsWithPrefix(opts))
		log.Value("is from key: "+o.name, clientv3.IsOptsWithFromKey(opts))
	}
	txn := clientv3.OpTxn([]clientv3.Cmp{clientv3.Value("a"), clientv3.Version("b")},
		[]clientv3.Op{clientv3.OpGet("a")}, []clientv3.Op{})
	log.Value("txn", facts(txn))
	log.Value("empty txn", facts(clientv3.OpTxn(nil, nil, nil)))

	op := clientv3.OpPut("k", "v")
	op.WithKeyBytes([]byte("changed key"))
	op.WithRangeBytes([]byte("changed end"))
	op.WithValueBytes([]byte("changed value"))
	log.Value("changed", facts(op))
}

// opPanics passes every option to every builder. Some of them panic.
func opPanics(_ context.Context, _ Site, log *transcript.Log) {
	builders := []struct {
		name  string
		build func(...clientv3.OpOption) clientv3.Op
	}{
		{"get", func(opts ...clientv3.OpOption) clientv3.Op { return clientv3.OpGet("k", opts...) }},
		{"put", func(opts ...clientv3.OpOption) clientv3.Op { return clientv3.OpPut("k", "v", opts...) }},
		{"delete", func(opts ...clientv3.OpOption) clientv3.Op { return clientv3.OpDelete("k", opts...) }},
		{"watch", func(opts ...clientv3.OpOption) clientv3.Op { return clientv3.OpWatch("k", opts...) }},
	}
	for _, b := range builders {
		for _, o := range options() {
			log.Panic(b.name+" "+o.name, func() { log.Value(b.name+" "+o.name+": op", facts(b.build(o.opt))) })
		}
		log.Panic(b.name+" prefix and from key", func() { b.build(clientv3.WithPrefix(), clientv3.WithFromKey()) })
		log.Panic(b.name+" from key and prefix", func() { b.build(clientv3.WithFromKey(), clientv3.WithPrefix()) })
		log.Panic(b.name+" several faults", func() { b.build(clientv3.WithRev(1), clientv3.WithLimit(1), clientv3.WithFilterPut()) })
	}
}

func compares(_ context.Context, _ Site, log *transcript.Log) {
	for i, target := range []clientv3.Cmp{
		clientv3.Value("k"), clientv3.Version("k"), clientv3.CreateRevision("k"), clientv3.ModRevision("k"), clientv3.LeaseValue("k"),
		{},
		clientv3.FromCompare(&pb.Compare{Target: 99}),
	} {
		for _, operand := range []any{"s", 1, int64(2), clientv3.LeaseID(3), int32(4), uint64(5), []byte("b"), 1.5, nil} {
			step := fmt.Sprintf("%d = %T", i, operand)
			log.Panic(step, func() {
				done := clientv3.Compare(target, "=", operand)
				log.Value(step+": message", done.GetCompare())
			})
		}
		log.Value(fmt.Sprint(i, " is left as it was"), target.GetCompare())
	}
	for _, result := range []string{"=", "!=", "<", ">", "==", "<=", ""} {
		log.Panic("result "+result, func() {
			done := clientv3.Compare(clientv3.Version("k"), result, 1)
			log.Value("result "+result+": message", done.GetCompare())
		})
	}

	cmp := clientv3.Compare(clientv3.Value("k"), "=", "v")
	clone := cmp.Clone()
	clone.WithKeyBytes([]byte("other key"))
	clone.WithValueBytes([]byte("other value"))
	log.Value("changed clone", clone.GetCompare())
	message := &pb.Compare{Key: []byte("m"), Target: pb.Compare_VERSION}
	from := clientv3.FromCompare(message)
	message.Key[0] = 'x'
	log.Value("from a message that changed since", from.GetCompare())
	for i, cmp := range []clientv3.Cmp{{}, clientv3.FromCompare(nil), clientv3.Compare(clientv3.Version("k"), "=", 1), cmp} {
		log.Value(fmt.Sprint(i, ": key and value"), [][]byte{cmp.KeyBytes(), cmp.ValueBytes()})
		ranged, prefixed := cmp.WithRange("z"), cmp.WithPrefix()
		log.Value(fmt.Sprint(i, ": range and prefix"), []*pb.Compare{ranged.GetCompare(), prefixed.GetCompare()})
	}
}

func configs(_ context.Context, _ Site, log *transcript.Log) {
	spec := &clientv3.ConfigSpec{
		Endpoints:          []string{"a:1", "b:2"},
		RequestTimeout:     time.Second,
		DialTimeout:        2 * time.Second,
		KeepAliveTime:      3 * time.Second,
		KeepAliveTimeout:   4 * time.Second,
		MaxCallSendMsgSize: 5,
		MaxCallRecvMsgSize: 6,
		Secure:             &clientv3.SecureConfig{InsecureTransport: true},
		Auth:               &clientv3.AuthConfig{Username: "u", Password: "p", Token: "t"},
	}
	text := ok(json.Marshal(spec))
	log.Value("as JSON", string(text))
	var read clientv3.ConfigSpec
	log.Error("from JSON", json.Unmarshal(text, &read))
	log.Value("read back", read)

	clone := spec.Clone()
	spec.Endpoints[0], spec.Secure.Cert, spec.Auth.Username = "changed", "changed", "changed"
	log.Value("clone", clone)
	for name, spec := range []*clientv3.ConfigSpec{
		clone,
		{},
		{Secure: &clientv3.SecureConfig{Cacert: "/none/ca"}},
		{Secure: &clientv3.SecureConfig{Cert: "/none/cert", Key: "/none/key"}},
		{Secure: &clientv3.SecureConfig{Cert: "/none/cert"}},
	} {
		cfg, err := clientv3.NewClientConfig(spec, zap.NewNop())
		log.Error(fmt.Sprint(name), err)
		if err == nil {
			logConfig(log, fmt.Sprint(name), cfg)
		}
	}
}

func logConfig(log *transcript.Log, name string, cfg *clientv3.Config) {
	log.Value(name+": fields", []any{
		cfg.Endpoints, cfg.DialTimeout, cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout, cfg.MaxCallSendMsgSize,
		cfg.MaxCallRecvMsgSize, cfg.Username, cfg.Password, cfg.Token,
	})
	log.Value(name+": TLS", cfg.TLS != nil)
	if cfg.TLS != nil {
		log.Value(name+": TLS fields", []any{cfg.TLS.ServerName, cfg.TLS.InsecureSkipVerify, cfg.TLS.MinVersion, cfg.TLS.RootCAs != nil})
	}
}

func newErrors(_ context.Context, _ Site, log *transcript.Log) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	endpoints, unreachable := []string{"a:1"}, []string{"127.0.0.1:1"}
	const timeout = 200 * time.Millisecond
	try := func(name string, cfg clientv3.Config) {
		if cfg.LogConfig == nil {
			cfg.Logger = zap.NewNop()
		}
		c, err := clientv3.New(cfg)
		log.Error(name, err)
		log.Value(name+": client", c != nil)
		log.Value(name+": no endpoints", errors.Is(err, clientv3.ErrNoAvailableEndpoints))
		log.Value(name+": exclusive", errors.Is(err, clientv3.ErrMutuallyExclusiveCfg))
		if c != nil {
			log.Error(name+": close", c.Close())
		}
	}
	try("no endpoints", clientv3.Config{})
	try("token and user", clientv3.Config{Endpoints: endpoints, Token: "t", Username: "u"})
	try("send limit above receive limit", clientv3.Config{Endpoints: endpoints, MaxCallSendMsgSize: 2, MaxCallRecvMsgSize: 1})
	try("equal limits", clientv3.Config{Endpoints: endpoints, MaxCallSendMsgSize: 1, MaxCallRecvMsgSize: 1})
	try("user without password", clientv3.Config{Endpoints: unreachable, Username: "u"})
	try("login with no server", clientv3.Config{Endpoints: unreachable, Username: "u", Password: "p", DialTimeout: timeout})
	try("login after the end", clientv3.Config{Endpoints: unreachable, Username: "u", Password: "p", Context: cancelled})
	try("version with no server", clientv3.Config{Endpoints: unreachable, RejectOldCluster: true, DialTimeout: timeout})
	try("bad log configuration", clientv3.Config{Endpoints: endpoints, LogConfig: &zap.Config{Encoding: "none"}})
	_, err := clientv3.NewFromURLs(nil)
	log.Error("no URLs", err)
	log.Error("ErrOldCluster", clientv3.ErrOldCluster)
}

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
