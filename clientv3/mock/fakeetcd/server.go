package fakeetcd

import (
	"context"
	"errors"
	"io"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/store"
)

// streamKey is the context key of the HTTP/2 stream that carries a call.
type streamKey struct{}

// claimStream records the HTTP/2 stream of a call. gRPC calls it for each stream in
// order, before it reads the next frame.
func claimStream(ctx context.Context, _ *tap.Info) (context.Context, error) {
	return context.WithValue(ctx, streamKey{}, connOf(ctx).nextStream()), nil
}

// connOf returns the connection of a call. Members accept only this type.
func connOf(ctx context.Context) *conn {
	p, _ := peer.FromContext(ctx)
	return p.Addr.(peerAddr).conn
}

// serve handles every call of every service.
func (m *Member) serve(_ any, stream grpc.ServerStream) error {
	c, err := m.receive(stream)
	if err != nil {
		return err
	}
	defer c.conn.release(c.id)
	if h := m.cluster.arrive(c); h != nil {
		c.run(h)
	}
	return c.finish()
}

// arrive records a call and returns its hook, nil if there is none. Both are one
// atomic step, so calls get their hooks in the order of the record, and a call that
// Wait has reported has its hook.
func (c *Cluster) arrive(call *Call) *Hook {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.takeLocked(call.Method)
	call.Number = c.recordLocked(call.record)
	return h
}

// run calls the hook. If the hook ends its goroutine instead of returning, run
// breaks the connection, so the client does not wait.
func (c *Call) run(h *Hook) {
	returned := false
	defer func() {
		if !returned {
			c.BreakConn()
		}
	}()
	h.f(c)
	returned = true
}

// receive reads a call's request, unless it is a bidirectional stream.
func (m *Member) receive(stream grpc.ServerStream) (*Call, error) {
	ctx := stream.Context()
	fullName, _ := grpc.MethodFromServerStream(stream)
	md, _ := metadata.FromIncomingContext(ctx)
	id, _ := ctx.Value(streamKey{}).(uint32)
	c := &Call{
		Member: m, Method: fullName, Metadata: md,
		cluster: m.cluster, stream: stream, method: lookup(fullName), conn: connOf(ctx), id: id,
		record: &Record{Member: m, Method: fullName, Metadata: md.Copy()},
	}
	c.record.Peer = c.conn.RemoteAddr().String()
	// Without compression the size of a response on the wire is known.
	if err := grpc.SetSendCompressor(ctx, "identity"); err != nil {
		return nil, err
	}
	if !c.method.clientStreams {
		c.Request = c.method.newRequest()
		if err := stream.RecvMsg(c.Request); err != nil {
			if errors.Is(err, io.EOF) {
				err = status.Error(codes.Internal, "fakeetcd: the call has no request")
			}
			return nil, err
		}
		c.record.Requests = []proto.Message{proto.Clone(c.Request)}
	}
	return c, nil
}

// method is how a method is decoded and executed.
type method struct {
	service       service
	request       protoreflect.MessageType
	clientStreams bool
}

func (m method) newRequest() proto.Message { return m.request.New().Interface() }

// lookup finds a method by its full name. An unknown method has a request of
// unknown type.
func lookup(fullName string) method {
	m := method{request: (&emptypb.Empty{}).ProtoReflect().Type(), service: unimplemented(fullName)}
	if s, ok := services[fullName]; ok {
		m.service = s
	}
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(fullName, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return m
	}
	md, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return m
	}
	m.clientStreams = md.IsStreamingClient()
	if t, err := protoregistry.GlobalTypes.FindMessageByName(md.Input().FullName()); err == nil {
		m.request = t
	}
	return m
}

// unimplemented is the service of a method that the fake lacks. Its status is that
// of a real server without the method.
func unimplemented(fullName string) service {
	return service{access: open, answer: func(*Call) (proto.Message, error) {
		name, method, _ := strings.Cut(strings.TrimPrefix(fullName, "/"), "/")
		for known := range services {
			if strings.HasPrefix(known, "/"+name+"/") {
				return nil, status.Errorf(codes.Unimplemented, "unknown method %s for service %s", method, name)
			}
		}
		return nil, status.Errorf(codes.Unimplemented, "unknown service %s", name)
	}}
}

const (
	// maxRequestBytes is etcd's default of --max-request-bytes, 1.5 MiB: the largest
	// write that it accepts.
	maxRequestBytes = 1536 * 1024
	// envelopeBytes is what etcd adds to a large write before it compares: the ID of the request, and the type of both. A user
	// would add a name.
	envelopeBytes = 18
)

// access refuses callers of a method while authentication is enabled.
type access func(c *Call) error

// open allows all callers, even with an invalid token. Streams check the token
// with each request.
func open(*Call) error { return nil }

// checked allows callers without a token or with a valid one; the method itself
// checks permissions.
func checked(c *Call) error { return c.require(func(string) error { return nil }) }

// users allows every user.
func users(c *Call) error { return c.require(c.cluster.auth.RequireUser) }

// admins allows users with the root role.
func admins(c *Call) error { return c.require(c.cluster.auth.RequireAdmin) }

// service executes the calls of one method.
type service struct {
	access access
	// answer executes a call that has one response, with Cluster.mu. The response does not count with an error.
	answer func(c *Call) (proto.Message, error)
	// stream executes one that sends its responses itself, without Cluster.mu. Either is nil.
	stream func(c *Call) error
}

// unary makes a service from a function over typed messages.
func unary[Q, R proto.Message](a access, f func(c *Call, req Q) (R, error)) service {
	return service{access: a, answer: func(c *Call) (proto.Message, error) { return f(c, c.Request.(Q)) }}
}

// proposed is unary for a method that goes through raft.
func proposed[Q, R proto.Message](a access, f func(c *Call, req Q) (R, error)) service {
	return unary(a, func(c *Call, req Q) (resp R, err error) {
		if err := c.propose(req); err != nil {
			return resp, err
		}
		return f(c, req)
	})
}

// storeMethod makes a service from a method of the store that goes through raft. permit is asked whether the user may
// change the keys of the request.
func storeMethod[Q, R proto.Message](a access, permit func(*Call, Q) error, f func(*store.Store, Q) (R, error)) service {
	return proposed(a, func(c *Call, req Q) (resp R, err error) {
		if err := permit(c, req); err != nil {
			return resp, err
		}
		return f(c.cluster.store, req)
	})
}

func withoutKeys[Q any](*Call, Q) error { return nil }

// streaming makes a service from a function that sends its responses itself.
func streaming(a access, f func(c *Call) error) service {
	return service{access: a, stream: f}
}

// clusterPrefix begins the full names of methods whose responses have no revision.
const clusterPrefix = "/etcdserverpb.Cluster/"

// services holds a member's methods by full name.
var services = allServices()

func allServices() map[string]service {
	all := make(map[string]service)
	for prefix, methods := range map[string]map[string]service{
		"/etcdserverpb.KV/":          kvService,
		"/etcdserverpb.Watch/":       watchService,
		"/etcdserverpb.Lease/":       leaseService,
		clusterPrefix:                clusterService,
		"/etcdserverpb.Auth/":        authService,
		"/etcdserverpb.Maintenance/": maintenanceService,
		"/grpc.health.v1.Health/":    healthService,
	} {
		for name, s := range methods {
			all[prefix+name] = s
		}
	}
	return all
}

// execute executes the call like an etcd member.
func (c *Call) execute() (proto.Message, error) {
	resp, err := c.begin()
	if stream := c.method.service.stream; stream != nil && err == nil {
		err = stream(c)
	}
	return resp, err
}

// begin makes the checks common to all methods, in the server's order, and executes a
// call that has one response.
func (c *Call) begin() (proto.Message, error) {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	c.record.Executed = true
	s := c.method.service
	if c.requiresLeader() && c.cluster.leader == nil {
		return nil, rpctypes.ErrGRPCNoLeader
	}
	if err := store.Check(c.Request); err != nil { // before authorization
		return nil, err
	}
	if err := s.access(c); err != nil || s.answer == nil {
		return nil, err
	}
	resp, err := s.answer(c)
	if err != nil {
		return nil, err
	}
	if r, ok := resp.(interface{ GetHeader() *pb.ResponseHeader }); ok {
		c.fill(r.GetHeader(), !strings.HasPrefix(c.Method, clusterPrefix))
	}
	return resp, nil
}

// require refuses a caller whose token is invalid, or whose user the check refuses.
func (c *Call) require(check func(user string) error) error {
	user, err := c.user()
	if err != nil {
		return err
	}
	return check(user)
}

// user returns the name of the user whose token the call carries.
func (c *Call) user() (string, error) { return c.cluster.auth.Identify(c.Metadata) }

func (c *Call) requiresLeader() bool {
	v := c.Metadata.Get(rpctypes.MetadataRequireLeaderKey)
	return len(v) > 0 && v[0] == rpctypes.MetadataHasLeader
}

// quorum fails, like a server after its request timeout, if there is no leader.
func (c *Call) quorum() error {
	if c.cluster.leader == nil {
		return rpctypes.ErrGRPCTimeout
	}
	return nil
}

// propose is quorum for a write, whose size is limited.
func (c *Call) propose(req proto.Message) error {
	if envelopeBytes+proto.Size(req) > maxRequestBytes {
		return rpctypes.ErrGRPCRequestTooLarge
	}
	return c.quorum()
}

func (c *Call) fill(h *pb.ResponseHeader, withRevision bool) {
	if h == nil {
		return
	}
	h.ClusterId, h.MemberId, h.RaftTerm = ClusterID, c.Member.id, c.cluster.term
	if withRevision && h.Revision == 0 {
		h.Revision = c.cluster.store.Revision()
	}
}

// header returns the header of a response that is sent on a stream, with the store's
// revision if rev is 0.
func (c *Call) header(rev int64) *pb.ResponseHeader {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	h := &pb.ResponseHeader{Revision: rev}
	c.fill(h, true)
	return h
}

// requests reads the requests of a stream until the client's last one or the end of
// the stream, and then closes the channel.
func (c *Call) requests() <-chan proto.Message {
	out := make(chan proto.Message)
	ctx := c.Context()
	c.cluster.background.Go(func() {
		defer close(out)
		for {
			req, err := c.Recv()
			if err != nil {
				return
			}
			select {
			case out <- req:
			case <-ctx.Done():
				return
			}
		}
	})
	return out
}
