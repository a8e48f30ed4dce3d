package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/quorate/quorate/lab/link"
)

// connectTimeout bounds the time between a member's connecting to its proxy and the
// end of its CONNECT request.
const connectTimeout = 5 * time.Second

// peerProxy is the HTTP proxy through which one member dials its peers. It knows who
// dials, since no other member uses it, and learns the peer from the CONNECT request;
// the connection then belongs to the link between the two.
type peerProxy struct {
	listener net.Listener
	links    map[string]*link.Link // by peer address
	work     sync.WaitGroup

	mu      sync.Mutex
	pending map[net.Conn]struct{} // connections whose request is being read
	closed  bool
}

// newPeerProxy starts a proxy that hands connections to the links, by the peer
// address that is asked for.
func newPeerProxy(links map[string]*link.Link) (*peerProxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("lab: no port for the peer proxy: %w", err)
	}
	d := &peerProxy{listener: listener, links: links, pending: make(map[net.Conn]struct{})}
	d.work.Go(d.accept)
	return d, nil
}

func (d *peerProxy) url() string {
	return "http://" + d.listener.Addr().String()
}

func (d *peerProxy) accept() {
	for {
		nc, err := d.listener.Accept()
		switch {
		case err == nil:
			d.work.Go(func() { d.connect(nc) })
		case errors.Is(err, net.ErrClosed):
			return
		default: // no file descriptors: the pause is short enough not to delay Close
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// connect answers one CONNECT request and gives the connection to its link. On a
// link that is cut the connection is reset, after the answer, as if the peer had
// done it.
func (d *peerProxy) connect(nc net.Conn) {
	if !d.track(nc) {
		_ = nc.Close()
		return
	}
	target, err := d.negotiate(nc)
	d.untrack(nc)
	if err != nil {
		_ = nc.Close()
		return
	}
	target.Go(nc)
}

func (d *peerProxy) negotiate(nc net.Conn) (*link.Link, error) {
	if err := nc.SetDeadline(time.Now().Add(connectTimeout)); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(nc)
	request, err := http.ReadRequest(reader)
	if err != nil {
		return nil, err
	}
	target, known := d.links[request.Host]
	if request.Method != http.MethodConnect || !known || reader.Buffered() > 0 {
		_, _ = io.WriteString(nc, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
		return nil, fmt.Errorf("lab: the peer proxy does not serve %s %s", request.Method, request.Host)
	}
	if _, err := io.WriteString(nc, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return nil, err
	}
	return target, nc.SetDeadline(time.Time{})
}

func (d *peerProxy) track(nc net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.pending[nc] = struct{}{}
	return true
}

func (d *peerProxy) untrack(nc net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pending, nc)
}

// close gives up the port and returns when no request is being read any more. The
// links are closed by their owner.
func (d *peerProxy) close() error {
	d.mu.Lock()
	first := !d.closed
	d.closed = true
	for nc := range d.pending {
		_ = nc.Close()
	}
	d.mu.Unlock()
	var err error
	if first {
		err = d.listener.Close()
	}
	d.work.Wait()
	return err
}
