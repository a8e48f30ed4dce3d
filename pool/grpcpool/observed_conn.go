package grpcpool

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// plenty is the number of streams that is taken for any number: a server which allows
// more, or does not limit them, is never the bound.
const plenty = 1 << 20

// streamLimits are the limits of the network connections that one gRPC channel has open.
// There are several if its target has several backends.
//
// After GOAWAY a connection takes no new streams, and those on it live on. If it was the only
// one, its limit counts no more. If there are others it does until the connection ends, because
// it is unknown which of the channel's streams are on it.
type streamLimits struct {
	// onChange is called without locks held when a server has set a limit.
	onChange func(limit int)
	// left is called without locks held when the only connection takes no new streams, or is
	// lost.
	left func()
	sum  atomic.Int64 // of those that are known; unheard if none is
	// ages counts how often the network connections of the channel were left. It is ahead of
	// what left tells.
	ages atomic.Int64
	last atomic.Int64 // number of the latest connection

	mu      sync.Mutex
	conns   map[*observedConn]int
	retired map[*observedConn]int // see retire
}

const limitUnknown = -1

func newStreamLimits(heard func(limit int), left func()) *streamLimits {
	l := &streamLimits{onChange: heard, left: left, conns: make(map[*observedConn]int), retired: make(map[*observedConn]int)}
	l.sum.Store(limitUnknown)
	return l
}

// total returns how many streams at a time the servers allow together; known is false
// if none has said anything.
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
		l.add()
	}
	l.mu.Unlock()
	if !over {
		l.onChange(limit)
	}
}

// retire takes note that the connections up to a number are of no use any more, though they
// have not ended yet.
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
		l.add()
		l.ages.Add(1)
	}
}

// reopen takes note that there is a connection, though none is known but what was retired.
func (l *streamLimits) reopen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) > 0 || len(l.retired) == 0 {
		return
	}
	l.conns, l.retired = l.retired, l.conns
	l.add()
}

// leave takes note of a GOAWAY.
func (l *streamLimits) leave(t *observedConn) {
	l.mu.Lock()
	_, counts := l.conns[t]
	only := counts && len(l.conns) == 1
	delete(l.retired, t)
	if only {
		t.over = true
		delete(l.conns, t)
		l.add()
		l.ages.Add(1)
	}
	l.mu.Unlock()
	if only {
		l.left()
	}
}

// remove takes note of the end of a connection.
func (l *streamLimits) remove(t *observedConn) {
	l.mu.Lock()
	_, counts := l.conns[t]
	t.over = true
	delete(l.conns, t)
	delete(l.retired, t)
	l.add()
	only := counts && len(l.conns) == 0
	if only {
		l.ages.Add(1)
	}
	l.mu.Unlock()
	if only {
		l.left()
	}
}

func (l *streamLimits) add() {
	sum := int64(0)
	for _, limit := range l.conns {
		sum += int64(limit)
	}
	if len(l.conns) == 0 {
		sum = limitUnknown
	}
	l.sum.Store(sum)
}

// observing is credentials that do what they wrap does, and note what the servers of their
// connections allow. It listens above encryption.
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
	observed.settings.leaving = func() { t.limits.leave(observed) }
	return observed, info, nil
}

func (t observing) Clone() credentials.TransportCredentials {
	return observing{t.TransportCredentials.Clone(), t.limits}
}

// UsesXDS is what gRPC's xDS policies recognise credentials by that take their
// configuration from xDS.
func (t observing) UsesXDS() bool {
	x, ok := t.TransportCredentials.(interface{ UsesXDS() bool })
	return ok && x.UsesXDS()
}

// observedConn is a connection whose incoming bytes are looked at. It must not implement
// syscall.Conn: gRPC would read past it.
type observedConn struct {
	net.Conn
	limits   *streamLimits
	settings settingsReader // used by the one goroutine that reads
	// Guarded by limits.mu:
	over   bool
	number int64 // from 1, in the order in which limits were set first
}

func (t *observedConn) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.settings.read(p[:n])
	if err != nil {
		t.limits.remove(t)
	}
	return n, err
}

func (t *observedConn) Close() error {
	t.limits.remove(t)
	return t.Conn.Close()
}
