package grpcpool

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// stream notifies the pool of its end: the first of the events after which gRPC releases its
// resources.
type stream struct {
	grpc.ClientStream
	oneReply bool        // the method has a single reply
	forget   func() bool // stops watching the context
	end      func()      // may be called more than once
}

func newStream(ctx context.Context, cs grpc.ClientStream, oneReply bool, release func()) *stream {
	s := &stream{ClientStream: cs, oneReply: oneReply, end: sync.OnceFunc(release)}
	s.forget = context.AfterFunc(ctx, s.end)
	return s
}

func (s *stream) ended() {
	s.forget()
	s.end()
}

// RecvMsg ends the stream with an error, or with the only reply.
func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.oneReply {
		s.ended()
	}
	return err
}

// SendMsg ends the stream with an error of this side. io.EOF stands for an error of the server,
// which RecvMsg returns.
func (s *stream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	if err != nil && !errors.Is(err, io.EOF) {
		s.ended()
	}
	return err
}

// Header ends the stream if no header will come. gRPC returns no error then; RecvMsg does.
func (s *stream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	if err != nil || md == nil {
		s.ended()
	}
	return md, err
}
