package channel

import (
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

const (
	// singleIdle is how long a connection to a single endpoint stays open
	// without calls. Those who ask one member for its status tend to ask
	// again, every few seconds.
	singleIdle = 30 * time.Second

	// maxSingleReconnectDelay is short: a caller who names an endpoint wants it
	// tried now, whatever was learnt about it before.
	maxSingleReconnectDelay = 500 * time.Millisecond

	// singleForgotten is when a connection that nobody asked for is dropped
	// altogether. It is far longer than a call can wait before it is sent.
	singleForgotten = 10 * time.Minute
)

// singles keeps a connection for each endpoint that was called by name.
type singles struct {
	mu     sync.Mutex
	conns  map[string]*single
	closed bool
}

type single struct {
	*grpc.ClientConn
	calls grpc.ClientConnInterface
	asked time.Time
}

// At carries calls to one endpoint, which need not be one of the channel's.
// The connection is kept for the next call and closes itself when it has not
// been used for half a minute.
func (c *Channel) At(ep string) (grpc.ClientConnInterface, error) {
	return c.single.get(ep, func() (*single, error) {
		conn, err := c.dial(ep, grpc.WithIdleTimeout(singleIdle), reconnecting(maxSingleReconnectDelay))
		if err != nil {
			return nil, err
		}
		return &single{ClientConn: conn, calls: c.Over(conn)}, nil
	})
}

func (s *singles) get(ep string, dial func() (*single, error)) (grpc.ClientConnInterface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	now := time.Now()
	if conn, ok := s.conns[ep]; ok {
		conn.asked = now
		return conn.calls, nil
	}
	s.sweep(now)
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	if s.conns == nil {
		s.conns = make(map[string]*single)
	}
	conn.asked = now
	s.conns[ep] = conn
	return conn.calls, nil
}

// sweep drops what is forgotten, so that a client which sees many endpoints
// come and go keeps none of them for ever. It needs the lock.
func (s *singles) sweep(now time.Time) {
	for ep, conn := range s.conns {
		if now.Sub(conn.asked) > singleForgotten && conn.GetState() == connectivity.Idle {
			conn.Close()
			delete(s.conns, ep)
		}
	}
}

func (s *singles) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, conn := range s.conns {
		conn.Close()
	}
	s.conns = nil
}
