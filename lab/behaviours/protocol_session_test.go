package behaviours_test

import (
	"context"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// method is one RPC, as its service's descriptor shows it.
type method struct {
	path     string
	request  protoreflect.FullName
	response protoreflect.FullName
}

// methods are the RPCs that a session can call by their request alone.
var methods = describe(pb.File_rpc_proto, healthpb.File_grpc_health_v1_health_proto)

// describe maps requests to methods. Where two methods take the same, it is the first: Range, not RangeStream.
func describe(files ...protoreflect.FileDescriptor) map[protoreflect.FullName]method {
	byRequest := make(map[protoreflect.FullName]method)
	for _, file := range files {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				d := service.Methods().Get(j)
				m := method{
					path:     "/" + string(service.FullName()) + "/" + string(d.Name()),
					request:  d.Input().FullName(),
					response: d.Output().FullName(),
				}
				if _, taken := byRequest[m.request]; !taken {
					byRequest[m.request] = m
				}
			}
		}
	}
	return byRequest
}

// rangeStream is the method that has to be named, since Range takes the same request.
var rangeStream = method{
	path:     pb.KV_RangeStream_FullMethodName,
	request:  (*pb.RangeRequest)(nil).ProtoReflect().Descriptor().FullName(),
	response: (*pb.RangeStreamResponse)(nil).ProtoReflect().Descriptor().FullName(),
}

// entry is one call, or one message of a bidirectional stream, in a transcript.
type entry struct {
	Method    string
	User      string
	Request   proto.Message
	Responses []proto.Message
	// Code and Message are those of the status. etcd sends no details with it.
	Code    codes.Code
	Message string
}

// session is one run of a program: the server that it runs against, and the transcript.
type session struct {
	ctx        context.Context
	conn       *grpc.ClientConn
	user       string
	tokens     map[string]string
	transcript []entry
}

// as makes the next calls send the token of a user, or none if user is empty.
func (s *session) as(user string) { s.user = user }

// call calls the method that takes req.
func (s *session) call(req proto.Message) entry {
	return s.callMethod(methods[req.ProtoReflect().Descriptor().FullName()], req)
}

// callMethod calls a method and writes to the transcript how it ended. A successful Authenticate gives its user the
// token.
func (s *session) callMethod(m method, req proto.Message) entry {
	responses, err := s.exchange(m, req)
	end := status.Convert(err)
	e := entry{m.path, s.user, req, responses, end.Code(), end.Message()}
	s.transcript = append(s.transcript, e)
	if login, ok := req.(*pb.AuthenticateRequest); ok && err == nil {
		s.tokens[login.Name] = responses[0].(*pb.AuthenticateResponse).Token
	}
	return e
}

// outgoing returns the context of a call by the present user.
func (s *session) outgoing() context.Context {
	if s.user == "" {
		return s.ctx
	}
	return metadata.AppendToOutgoingContext(s.ctx, rpctypes.TokenFieldNameGRPC, s.tokens[s.user])
}

// exchange treats every method as one that may send any number of responses, so that none goes unseen.
func (s *session) exchange(m method, req proto.Message) ([]proto.Message, error) {
	stream, err := s.conn.NewStream(s.outgoing(), &grpc.StreamDesc{ServerStreams: true}, m.path)
	if err != nil {
		return nil, err
	}
	// io.EOF says that the call has ended already, and RecvMsg why.
	if err := stream.SendMsg(req); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(m.response)
	if err != nil {
		return nil, err
	}
	var responses []proto.Message
	for {
		response := kind.New().Interface()
		err := stream.RecvMsg(response)
		if errors.Is(err, io.EOF) {
			return responses, nil
		}
		if err != nil {
			return responses, err
		}
		responses = append(responses, response)
	}
}

// received writes a message of a bidirectional stream, or its end, to the transcript.
func (s *session) received(method string, response proto.Message, err error) {
	end := status.Convert(err)
	e := entry{Method: method, User: s.user, Code: end.Code(), Message: end.Message()}
	if err == nil {
		e.Responses = []proto.Message{response}
	}
	s.transcript = append(s.transcript, e)
}

// watchSession is a session with a watch stream.
type watchSession struct {
	*session
	stream pb.Watch_WatchClient
}

// watching opens a watch stream, or fails in the transcript.
func (s *session) watching(run func(*watchSession)) {
	stream, err := pb.NewWatchClient(s.conn).Watch(s.outgoing())
	if err != nil {
		s.received(pb.Watch_Watch_FullMethodName, nil, err)
		return
	}
	run(&watchSession{s, stream})
}

// receive writes the next n responses to the transcript, or why there are fewer, and returns them.
func (s *watchSession) receive(n int) []*pb.WatchResponse {
	var responses []*pb.WatchResponse
	for range n {
		response, err := s.stream.Recv()
		s.received(pb.Watch_Watch_FullMethodName, response, err)
		if err != nil {
			return responses
		}
		responses = append(responses, response)
	}
	return responses
}

// ask sends a request, and receives n responses. Receive says what went wrong if sending fails.
func (s *watchSession) ask(r *pb.WatchRequest, n int) {
	_ = s.stream.Send(r)
	s.receive(n)
}

func (s *watchSession) create(r *pb.WatchCreateRequest, n int) {
	s.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}, n)
}

func (s *watchSession) cancel(id int64, n int) {
	s.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}}, n)
}

func (s *watchSession) progress(n int) {
	s.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}, n)
}

func (s *session) put(key, value string) {
	s.call(&pb.PutRequest{Key: []byte(key), Value: []byte(value)})
}

func (s *session) remove(key string) { s.call(&pb.DeleteRangeRequest{Key: []byte(key)}) }
