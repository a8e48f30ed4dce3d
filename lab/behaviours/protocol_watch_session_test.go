package behaviours_test

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

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
