package fakeetcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// errBroken ends a call whose response can no longer be delivered.
var errBroken = status.Error(codes.Unavailable, "fakeetcd: a hook broke this call")

// messagePrefix is the length of what gRPC puts before each message: a flag
// and the size.
const messagePrefix = 5

// Call is one RPC that a member received. Do not change the exported fields. Only
// the call's hook may call its methods, until it returns, and the function that it
// gave to OnSend; BreakConn may also be called from other goroutines meanwhile.
//
// A hook runs in a goroutine of the server: it can use assert, but must not
// call t.FailNow, and so not require.
type Call struct {
	// Member is the member that received the call.
	Member *Member
	// Method is the full name, such as "/etcdserverpb.KV/Put".
	Method string
	// Request is the request. It is nil for bidirectional streams, Watch and
	// LeaseKeepAlive. A message of a type unknown to the program is an
	// *emptypb.Empty with the message in its unknown fields.
	Request proto.Message
	// Metadata is the client's metadata, such as "token" and "hasleader".
	Metadata metadata.MD
	// Number counts the calls of this method on all members, from 1.
	Number int

	cluster *Cluster
	stream  grpc.ServerStream
	method  method
	conn    *conn
	id      uint32 // of the HTTP/2 stream
	record  *Record
	onSend  func(proto.Message) bool
	sent    sent

	executed bool
	result   answer
	decided  bool // by Answer
	answer   answer
	ended    atomic.Bool // no further message may be sent
}

type answer struct {
	message proto.Message
	err     error
}

// Context returns the context of the call. It ends when the client cancels, its
// deadline passes, or the connection breaks.
func (c *Call) Context() context.Context { return c.stream.Context() }

// Execute makes the member execute the call and returns the result. Only the first
// Execute does so; further ones return the same result. Execute does not send the
// result: it is sent when the hook returns, unless Answer replaces it.
//
// A call can be executed after its connection broke.
//
// For calls with a response stream (Watch, LeaseKeepAlive, Snapshot, RangeStream)
// Execute serves the stream until it ends, and returns no message.
func (c *Call) Execute() (proto.Message, error) {
	if !c.executed {
		c.executed = true
		c.result.message, c.result.err = c.execute()
	}
	return c.result.message, c.result.err
}

// Answer sets the answer, whether or not the call is executed. It is sent when the
// hook returns. With an error there is no message; a status error reaches the
// client as it is. Without either, the call ends with status OK and no message,
// which clients report as codes.Internal for a unary call.
func (c *Call) Answer(resp proto.Message, err error) {
	c.decided = true
	c.answer = answer{resp, err}
}

// SendHeader sends the response header with md at once, and returns when the
// client's transport has read it. The error says why it could not.
func (c *Call) SendHeader(md metadata.MD) error {
	if err := c.stream.SendHeader(md); err != nil {
		return err
	}
	c.sent.headers = 1
	return c.conn.wait(c.Context(), c.id, c.sent)
}

// Send sends a response message at once, and returns when the client's transport
// has read it. The error says why it could not. The call then ends with status OK
// and no further message, unless Answer sets another end or Execute serves the rest
// of a stream.
//
// Sending a second message where the client expects one makes it fail; see
// AnswerTwice.
func (c *Call) Send(resp proto.Message) error {
	if err := c.write(resp); err != nil {
		return err
	}
	return c.conn.wait(c.Context(), c.id, c.sent)
}

func (c *Call) write(resp proto.Message) error {
	c.sent.headers = 1
	c.sent.data += messagePrefix + proto.Size(resp)
	return c.stream.SendMsg(resp)
}

// AnswerTwice sends the message twice. The client of a call that has one response,
// such as Put, fails with codes.Internal (a cardinality violation), although the
// first message was a valid response.
func (c *Call) AnswerTwice(resp proto.Message) error {
	return errors.Join(c.Send(resp), c.Send(resp))
}

// Recv returns the next request of a bidirectional stream, and io.EOF after the last one.
// Execute does not see requests that the hook has received with Recv.
func (c *Call) Recv() (proto.Message, error) {
	req := c.method.newRequest()
	if err := c.stream.RecvMsg(req); err != nil {
		return nil, err
	}
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	c.record.Requests = append(c.record.Requests, proto.Clone(req))
	return req, nil
}

// OnSend sets a function that sees each response of a stream before Execute sends
// it. It may wait, modify the response, send others with Send, and break the
// connection. If it returns false, the response is dropped.
func (c *Call) OnSend(f func(resp proto.Message) bool) { c.onSend = f }

// send sends a response of a stream that is being executed.
func (c *Call) send(resp proto.Message) error {
	if c.ended.Load() {
		return errBroken
	}
	if c.onSend != nil && !c.onSend(resp) {
		return nil
	}
	if c.ended.Load() { // by onSend
		return errBroken
	}
	return c.write(resp)
}

// finish executes and answers the call, unless its hook already has, with Answer or Send. A stream that the hook has
// executed ends as it was executed, whatever else was sent.
func (c *Call) finish() error {
	if c.ended.Load() {
		return errBroken
	}
	streamed := c.executed && c.method.service.stream != nil
	if !c.decided && (streamed || c.sent.data == 0) {
		c.Answer(c.Execute())
	}
	if c.answer.err != nil || c.answer.message == nil {
		return c.answer.err
	}
	return c.stream.SendMsg(c.answer.message)
}

// ResetCode is an HTTP/2 error code (RFC 9113, section 7) for Call.ResetStream.
type ResetCode uint32

// The codes that proxies and servers use. The status is grpc-go's mapping.
const (
	// ResetInternal is INTERNAL_ERROR: codes.Internal.
	ResetInternal ResetCode = 0x2
	// ResetRefused is REFUSED_STREAM: the stream was not processed. grpc-go retries
	// the call once transparently, then reports codes.Unavailable.
	ResetRefused ResetCode = 0x7
	// ResetCancel is CANCEL: codes.Canceled, while the caller's context lives.
	ResetCancel ResetCode = 0x8
	// ResetEnhanceYourCalm is ENHANCE_YOUR_CALM: codes.ResourceExhausted.
	ResetEnhanceYourCalm ResetCode = 0xb
)

// BreakConn closes the connection of the call at once: no GOAWAY, no response, and
// every other call on it breaks too. Before Execute, the call is not executed,
// unless the hook calls Execute afterwards; after Execute, its response is lost.
// The client sees codes.Unavailable.
func (c *Call) BreakConn() {
	c.ended.Store(true)
	// Closing a pipe cannot fail.
	_ = c.conn.Close()
}

// ResetStream ends the call with an RST_STREAM frame, as a proxy may at any time.
// The connection stays open. The call is not executed, unless the hook calls
// Execute.
func (c *Call) ResetStream(code ResetCode) {
	c.ended.Store(true)
	c.conn.inject(resetFrame(c.id, code))
}

// Hold waits until release is closed or receives. It returns early, with an error,
// when the context of the call ends: the client cancelled, the connection broke, or
// the cluster was closed.
func (c *Call) Hold(release <-chan struct{}) error {
	select {
	case <-release:
		return nil
	case <-c.Context().Done():
		return context.Cause(c.Context())
	}
}

// Hook is a registered function that handles calls, see Cluster.On, Once and Nth.
type Hook struct {
	cluster *Cluster
	method  string
	f       func(*Call)

	// The rest is guarded by Cluster.mu.
	skip   int // matching calls to skip first
	single bool
	ran    int
}

// On makes f handle every further call of a method. The method is a full name such
// as "/etcdserverpb.KV/Put", its last part "Put", or "*" for all.
//
// One hook handles a call: the oldest Once or Nth that is due, or else the newest
// On.
func (c *Cluster) On(method string, f func(*Call)) *Hook {
	return c.add(&Hook{cluster: c, method: method, f: f})
}

// Once makes f handle the next call of a method. A second Once handles the call
// after that, and so on. See On for the method.
func (c *Cluster) Once(method string, f func(*Call)) *Hook {
	return c.add(&Hook{cluster: c, method: method, f: f, single: true})
}

// Nth makes f handle the n-th further call of a method, counted from 1; less means
// 1. See On for the method.
func (c *Cluster) Nth(method string, n int, f func(*Call)) *Hook {
	return c.add(&Hook{cluster: c, method: method, f: f, single: true, skip: n - 1})
}

// Remove removes the hook. It still handles the calls that it already has.
func (h *Hook) Remove() {
	h.cluster.mu.Lock()
	defer h.cluster.mu.Unlock()
	h.cluster.removeLocked(h)
}

// Ran returns how many calls the hook has handled. If it is 0 at the end of a test,
// the hook was never reached.
func (h *Hook) Ran() int { return locked(h.cluster, func() int { return h.ran }) }

func (c *Cluster) add(h *Hook) *Hook {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks = append(c.hooks, h)
	return h
}

func (c *Cluster) removeLocked(h *Hook) {
	c.hooks = slices.DeleteFunc(c.hooks, func(other *Hook) bool { return other == h })
}

// takeLocked returns the hook for a call of the method, nil if there is none.
func (c *Cluster) takeLocked(method string) *Hook {
	var chosen *Hook
	for _, h := range c.hooks {
		switch {
		case !matches(h.method, method):
		case h.skip > 0:
			h.skip--
		case chosen == nil || !chosen.single:
			chosen = h
		}
	}
	if chosen == nil {
		return nil
	}
	chosen.ran++
	if chosen.single {
		c.removeLocked(chosen)
	}
	return chosen
}

// matches reports whether a pattern, as On takes it, means a full method name.
func matches(pattern, method string) bool {
	return pattern == "*" || pattern == method || pattern == method[strings.LastIndexByte(method, '/')+1:]
}
