package fakeetcd

import (
	"context"
	"errors"
	"io"
	"strings"

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
