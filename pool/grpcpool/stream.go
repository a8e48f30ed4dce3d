package grpcpool

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// stream tells the pool when it has ended: at the first of the events by which gRPC gives
// its resources back.
type stream struct {
	grpc.ClientStream
	oneReply bool        // the first reply is the only one
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

// RecvMsg ends the stream with an error, and if there is only one reply, with that.
func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.oneReply {
		s.ended()
	}
	return err
}

// SendMsg ends the stream with an error of this side. That of the other, io.EOF stands for,
// and RecvMsg has it.
func (s *stream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	if err != nil && !errors.Is(err, io.EOF) {
		s.ended()
	}
	return err
}

// Header ends the stream if there is none to come. gRPC returns no error then: RecvMsg has
// it.
func (s *stream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	if err != nil || md == nil {
		s.ended()
	}
	return md, err
}
