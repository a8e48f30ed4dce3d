package grpcpool

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

// plenty is the number of streams above which a limit never matters.
const plenty = 1 << 20

// streamLimits tracks the limits of the network connections of one gRPC channel. There are several
// if its target has several backends.
//
// After GOAWAY a connection accepts no new streams, while its streams continue. If it is the only
// one, its limit no longer counts. If there are others it counts until the connection ends,
// because it is unknown which of the channel's streams are on it.
type streamLimits struct {
	// onChange is called without locks held when a server reports a limit.
	onChange func(limit int)
	// left is called without locks held when the only connection accepts no new streams, or is
	// lost.
	left func()
	sum  atomic.Int64 // the sum of the known limits; limitUnknown if there is none
	// generation counts how often the channel's network connections were lost or drained. It
	// changes before left is called.
	generation atomic.Int64
	last       atomic.Int64 // number of the latest connection

	mu      sync.Mutex
	conns   map[*observedConn]int
	retired map[*observedConn]int // see retire
}

const limitUnknown = -1

func newStreamLimits(onChange func(limit int), left func()) *streamLimits {
	l := &streamLimits{onChange: onChange, left: left, conns: make(map[*observedConn]int), retired: make(map[*observedConn]int)}
	l.sum.Store(limitUnknown)
	return l
}

// total returns how many concurrent streams the servers allow together; known is false if none has
// reported a limit.
func (l *streamLimits) total() (n int, known bool) {
	sum := l.sum.Load()
	return int(max(sum, 0)), sum != limitUnknown
}

func (l *streamLimits) set(t *observedConn, limit int) {
	l.mu.Lock()
	over := t.over
	if _, retired := l.retired[t]; retired {
		l.retired[t] = limit
	} else if !over {
		if t.number == 0 {
			t.number = l.last.Add(1)
		}
		l.conns[t] = limit
		l.addUpLocked()
	}
	l.mu.Unlock()
	if !over {
		l.onChange(limit)
	}
}

// retire records that connections up to a number are unusable although they have not ended.
func (l *streamLimits) retire(upTo int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	some := false
	for t, limit := range l.conns {
		if t.number <= upTo {
			some = true
			l.retired[t] = limit
			delete(l.conns, t)
		}
	}
	if some {
		l.addUpLocked()
		l.generation.Add(1)
	}
}

// reopen restores retired connections if there are no others.
func (l *streamLimits) reopen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) > 0 || len(l.retired) == 0 {
		return
	}
	l.conns, l.retired = l.retired, l.conns
	l.addUpLocked()
}

// leave records that a connection accepts no new streams, or has ended.
func (l *streamLimits) leave(t *observedConn, ended bool) {
	l.mu.Lock()
	_, counts := l.conns[t]
	only := counts && len(l.conns) == 1
	delete(l.retired, t)
	if only || ended {
		t.over = true
		delete(l.conns, t)
		l.addUpLocked()
	}
	if only {
		l.generation.Add(1)
	}
	l.mu.Unlock()
	if only {
		l.left()
	}
}

// addUpLocked updates the sum.
func (l *streamLimits) addUpLocked() {
	sum := int64(0)
	for _, limit := range l.conns {
		sum += int64(limit)
	}
	if len(l.conns) == 0 {
		sum = limitUnknown
	}
	l.sum.Store(sum)
}

// observing wraps credentials, and records the stream limits that servers report. It reads the
// bytes after decryption.
type observing struct {
	credentials.TransportCredentials
	limits *streamLimits
}

func (t observing) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := t.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return conn, info, err
	}
	observed := &observedConn{Conn: conn, limits: t.limits}
	observed.settings.found = func(limit uint32) { t.limits.set(observed, int(min(limit, plenty))) }
	observed.settings.leaving = func() { t.limits.leave(observed, false) }
	return observed, info, nil
}

func (t observing) Clone() credentials.TransportCredentials {
	return observing{t.TransportCredentials.Clone(), t.limits}
}

// UsesXDS is how gRPC's xDS policies recognize credentials that are configured by xDS.
func (t observing) UsesXDS() bool {
	x, ok := t.TransportCredentials.(interface{ UsesXDS() bool })
	return ok && x.UsesXDS()
}

// observedConn is a connection whose incoming bytes are observed. It must not implement
// syscall.Conn: gRPC would read from that.
type observedConn struct {
	net.Conn
	limits   *streamLimits
	settings settingsReader // used by the reading goroutine only
	// Guarded by limits.mu:
	over   bool  // its limit no longer counts
	number int64 // from 1, in the order of their first limits
}

func (t *observedConn) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.settings.read(p[:n])
	if err != nil {
		t.limits.leave(t, true)
	}
	return n, err
}

func (t *observedConn) Close() error {
	t.limits.leave(t, true)
	return t.Conn.Close()
}

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
