package pools

import (
	"errors"
	"net"
	"sync"
	"time"
)

const (
	wireRate  = 60_000_000       // bytes per second in each direction
	wireDelay = time.Millisecond // in each direction: 2 ms there and back
	// What a connection can have under way in a direction, besides what its sockets hold:
	// a little more than what fills the link.
	wireChunk  = 16 << 10
	wireChunks = 8
	// socketBuffer is what the kernel holds for the sockets of the link.
	socketBuffer = 64 << 10
	// slack is for how long a link that could not send at once sends faster: the machine's
	// timers are late.
	slack = time.Millisecond
)

// wire is an emulated link to a server, that its connections share: each gets its turn for
// a chunk of 16 KB, as Linux's fair queueing (fq_codel) has it.
type wire struct {
	listener net.Listener
	target   string
	there    pacer
	back     pacer
	work     sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

func newWire(target string) (*wire, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{listener: listener, target: target}
	w.work.Go(w.accept)
	return w, nil
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) close() error {
	err := w.listener.Close()
	w.mu.Lock()
	w.closed = true
	for _, c := range w.conns {
		err = errors.Join(err, c.Close())
	}
	w.mu.Unlock()
	w.work.Wait()
	return err
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, client, server)
		if w.closed {
			_, _ = client.Close(), server.Close()
		}
		w.mu.Unlock()
		w.carry(client, server, &w.there)
		w.carry(server, client, &w.back)
	}
}

type chunk struct {
	bytes   []byte
	arrived time.Time
}

// carry moves bytes in one direction, in the background, until either end is closed, and closes the
// other.
func (w *wire) carry(from, to net.Conn, p *pacer) {
	for _, c := range []net.Conn{from, to} {
		tcp := c.(*net.TCPConn)
		_, _ = tcp.SetReadBuffer(socketBuffer), tcp.SetWriteBuffer(socketBuffer)
	}
	queue := make(chan chunk, wireChunks)
	w.work.Go(func() {
		if send(queue, to, p) != nil {
			_ = from.Close()
			for range queue { // nothing arrives any more
			}
		}
		_ = to.Close()
	})
	w.work.Go(func() {
		defer close(queue)
		for {
			b := make([]byte, wireChunk)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			queue <- chunk{b[:n], time.Now()}
		}
	})
}

// send writes chunks when the link has carried them.
func send(queue <-chan chunk, to net.Conn, p *pacer) error {
	t, err := newTimer()
	if err != nil {
		return err
	}
	defer t.close()
	for c := range queue {
		if err := t.wait(c.arrived.Add(wireDelay)); err != nil {
			return err
		}
		if err := t.wait(p.reserve(len(c.bytes))); err != nil {
			return err
		}
		if _, err := to.Write(c.bytes); err != nil {
			return err
		}
	}
	return nil
}

// pacer is the transmitter of one direction.
type pacer struct {
	mu   sync.Mutex
	free time.Time
}

// reserve returns when n bytes will have been sent.
func (p *pacer) reserve(n int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if begin := time.Now().Add(-slack); p.free.Before(begin) {
		p.free = begin
	}
	p.free = p.free.Add(time.Duration(n) * time.Second / wireRate)
	return p.free
}
