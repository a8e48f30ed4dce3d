package keepalive

import (
	"cmp"
	"errors"
	"fmt"

	"google.golang.org/grpc"
)

const (
	defaultMessageSize = 4 << 20  // grpc's default for what is received
	maxMessageSize     = 64 << 20 // see Sizes
	minWindow          = 64 << 10 // grpc-go ignores what is less than HTTP/2's 65,535
	maxWindow          = 8 << 20  // see Sizes
)

// Sizes are the limits of messages and windows on both ends of a connection. The
// zero Sizes has grpc's limits for what is received and the same for what is sent.
//
// Both ends get both limits, so a message that is too long is refused by the side
// that makes it, with ResourceExhausted: a request is then certain not to have been
// executed, and a response has cost the network nothing. The call whose response is
// too long has been executed all the same.
//
// # Windows
//
// How much may be on its way to a slow reader is up to HTTP/2's flow-control windows.
// grpc-go starts at 64 KiB and, while data flows, measures the product of bandwidth
// and delay and grows the windows to twice that, 16 MiB at most. That is on if Static
// windows are 0, and is right nearly always. To measure, it sends a ping when data
// arrives and none is under way, which both ends pay for with each small message. A
// fixed window switches the measuring off for the whole connection. In grpc-go 1.85 its
// other options for initial windows do so too; the ones used here say so in their names.
//
// The memory that a slow reader costs follows: the receiver holds at most one stream
// window, and the sender about 64 KiB and one message, for each stream on which
// nothing is read. The connection's window is no bound, because grpc-go opens it again
// when data arrives, read or not. Hence the limits here: 64 MiB for a message,
// 8 MiB for a fixed window.
// MaxConcurrentStreams bounds the number of streams.
type Sizes struct {
	// MaxRequest and MaxResponse are the longest messages that the client and the
	// server may send, in bytes, uncompressed. 0: 4 MiB. At most 64 MiB.
	MaxRequest, MaxResponse int

	// StaticStreamWindow and StaticConnWindow fix the windows for what either end
	// receives, in bytes. 0: grpc-go sizes them. Set both or neither, to 64 KiB up to 8 MiB,
	// the connection's not smaller than the stream's: gRPC leaves the other at
	// 64 KiB, which then is the bound of all.
	StaticStreamWindow, StaticConnWindow int32

	// MaxConcurrentStreams is how many calls the server lets a client have on one
	// connection; more wait in the client. 0: no limit.
	MaxConcurrentStreams uint32
}

// Validate returns nil, or an error for each field that is out of its bounds.
func (s Sizes) Validate() error {
	return errors.Join(
		messageSize("Sizes.MaxRequest", s.MaxRequest),
		messageSize("Sizes.MaxResponse", s.MaxResponse),
		windowSize("StaticStreamWindow", s.StaticStreamWindow),
		windowSize("StaticConnWindow", s.StaticConnWindow),
		s.windowsAgree(),
	)
}

func messageSize(field string, n int) error {
	if n >= 0 && n <= maxMessageSize {
		return nil
	}
	return fmt.Errorf("keepalive: %s: %d; it must be 1 to %d bytes (64 MiB), or 0 for 4 MiB: send what is larger as a stream of messages", field, n, maxMessageSize)
}

func windowSize(field string, n int32) error {
	if n == 0 || n >= minWindow && n <= maxWindow {
		return nil
	}
	return fmt.Errorf("keepalive: Sizes.%s: %d; it must be %d to %d bytes (64 KiB to 8 MiB), or 0 to let gRPC size it, up to 16 MiB", field, n, minWindow, maxWindow)
}

func (s Sizes) windowsAgree() error {
	switch {
	case (s.StaticStreamWindow == 0) != (s.StaticConnWindow == 0):
		return errors.New("keepalive: Sizes: only one of StaticStreamWindow and StaticConnWindow is set, and grpc-go would fix the other at 64 KiB: set both or neither")
	case s.StaticConnWindow < s.StaticStreamWindow:
		return fmt.Errorf("keepalive: Sizes.StaticConnWindow: %d is less than StaticStreamWindow, %d, which could never be used up: make it at least that", s.StaticConnWindow, s.StaticStreamWindow)
	}
	return nil
}

func (s Sizes) messages() (request, response int) {
	return cmp.Or(s.MaxRequest, defaultMessageSize), cmp.Or(s.MaxResponse, defaultMessageSize)
}

// DialOptions returns what the client gives to grpc.NewClient, or the error of
// [Sizes.Validate].
func (s Sizes) DialOptions() ([]grpc.DialOption, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	request, response := s.messages()
	options := []grpc.DialOption{grpc.WithDefaultCallOptions(
		grpc.MaxCallSendMsgSize(request),
		grpc.MaxCallRecvMsgSize(response),
	)}
	if s.StaticStreamWindow > 0 {
		options = append(options,
			grpc.WithStaticStreamWindowSize(s.StaticStreamWindow),
			grpc.WithStaticConnWindowSize(s.StaticConnWindow))
	}
	return options, nil
}

// ServerOptions returns what the server gives to grpc.NewServer, or the error of
// [Sizes.Validate].
func (s Sizes) ServerOptions() ([]grpc.ServerOption, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	request, response := s.messages()
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(request), grpc.MaxSendMsgSize(response)}
	if s.StaticStreamWindow > 0 {
		options = append(options,
			grpc.StaticStreamWindowSize(s.StaticStreamWindow),
			grpc.StaticConnWindowSize(s.StaticConnWindow))
	}
	if s.MaxConcurrentStreams > 0 {
		options = append(options, grpc.MaxConcurrentStreams(s.MaxConcurrentStreams))
	}
	return options, nil
}
