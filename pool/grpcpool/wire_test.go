package grpcpool_test

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/test/bufconn"
)

const (
	wireRate  = 60_000_000       // bytes per second in each direction
	wireDelay = time.Millisecond // in each direction
	wireChunk = 16 << 10
	wireQueue = 8 // chunks that a connection may have in transit in each direction
)

// wire is a link in memory to a server. Its connections take turns, one chunk each.
type wire struct {
	server *bufconn.Listener
	there  pacer
	back   pacer
	pumps  sync.WaitGroup
}

// dial connects over the link.
func (w *wire) dial(ctx context.Context, _ string) (net.Conn, error) {
	server, err := w.server.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	near := bufconn.Listen(wireChunk)
	defer near.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := near.Accept()
		accepted <- c
	}()
	client, err := near.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	end := <-accepted
	w.pumps.Go(func() { w.carry(end, server, &w.there) })
	w.pumps.Go(func() { w.carry(server, end, &w.back) })
	return client, nil
}

// carry copies bytes in one direction until either end is closed, and closes both.
func (w *wire) carry(from, to net.Conn, p *pacer) {
	type chunk struct {
		bytes   []byte
		arrived time.Time
	}
	queue := make(chan chunk, wireQueue)
	w.pumps.Go(func() {
		for c := range queue {
			time.Sleep(time.Until(c.arrived.Add(wireDelay)))
			p.send(len(c.bytes))
			if _, err := to.Write(c.bytes); err != nil {
				_ = from.Close()
			}
		}
		_ = to.Close()
	})
	defer close(queue)
	for {
		b := make([]byte, wireChunk)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		queue <- chunk{b[:n], time.Now()}
	}
}

// pacer is the transmitter of one direction.
type pacer struct {
	mu   sync.Mutex
	free time.Time
}

// send returns when n bytes have been sent.
func (p *pacer) send(n int) {
	p.mu.Lock()
	if now := time.Now(); p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(n) * time.Second / wireRate)
	sent := p.free
	p.mu.Unlock()
	time.Sleep(time.Until(sent))
}
