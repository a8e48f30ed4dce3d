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
// There are several if its target has several backends, or if one connection is being
// replaced: after GOAWAY its streams live on, on what they had.
type streamLimits struct {
	// heard is called without locks held when a server has set a limit.
	heard func(limit int)
	sum   atomic.Int64 // of those that are known; unheard if none is

	mu    sync.Mutex
	conns map[*tap]int
}

const unheard = -1

func newStreamLimits(heard func(limit int)) *streamLimits {
	l := &streamLimits{heard: heard, conns: make(map[*tap]int)}
	l.sum.Store(unheard)
	return l
}

// total returns how many streams at a time the servers allow together; known is false
// if none has said anything.
func (l *streamLimits) total() (n int, known bool) {
	sum := l.sum.Load()
	return int(max(sum, 0)), sum != unheard
}

func (l *streamLimits) set(t *tap, limit int) {
	l.mu.Lock()
	over := t.over
	if !over {
		l.conns[t] = limit
		l.add()
	}
	l.mu.Unlock()
	if !over {
		l.heard(limit)
	}
}

func (l *streamLimits) remove(t *tap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.over = true
	delete(l.conns, t)
	l.add()
}

func (l *streamLimits) add() {
	sum := int64(0)
	for _, limit := range l.conns {
		sum += int64(limit)
	}
	if len(l.conns) == 0 {
		sum = unheard
	}
	l.sum.Store(sum)
}

// tapping is credentials that do what they wrap does, and note what the servers of their
// connections allow. It listens above encryption.
type tapping struct {
	credentials.TransportCredentials
	limits *streamLimits
}

func (t tapping) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := t.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return conn, info, err
	}
	tapped := &tap{Conn: conn, limits: t.limits}
	tapped.settings.found = func(limit uint32) { t.limits.set(tapped, int(min(limit, plenty))) }
	return tapped, info, nil
}

func (t tapping) Clone() credentials.TransportCredentials {
	return tapping{t.TransportCredentials.Clone(), t.limits}
}

// UsesXDS is what gRPC's xDS policies recognise credentials by that take their
// configuration from xDS.
func (t tapping) UsesXDS() bool {
	x, ok := t.TransportCredentials.(interface{ UsesXDS() bool })
	return ok && x.UsesXDS()
}

// tap is a connection whose incoming bytes are looked at. It must not implement
// syscall.Conn: gRPC would read past it.
type tap struct {
	net.Conn
	limits   *streamLimits
	settings settingsReader // used by the one goroutine that reads
	over     bool           // guarded by limits.mu
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.settings.read(p[:n])
	if err != nil {
		t.limits.remove(t)
	}
	return n, err
}

func (t *tap) Close() error {
	t.limits.remove(t)
	return t.Conn.Close()
}
