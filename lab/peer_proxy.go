package lab

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab/link"
)

// connectTimeout bounds the time between a member's connecting to its proxy and the
// end of its CONNECT request.
const connectTimeout = 5 * time.Second

// peerProxy is the HTTP proxy through which one member dials its peers, with the links by peer address. It knows who
// dials, since no other member uses it, and learns the peer from the CONNECT request;
// the connection then belongs to the link between the two.
type peerProxy map[string]*link.Link

// serve starts the proxy. closeProxy frees its port and ends the requests that are being read; the links are closed by their owner.
// An error ends it, see package fatal.
func (p peerProxy) serve() (url string, closeProxy func() error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(err, "lab: no port for the peer proxy")
	server := &http.Server{Handler: p, ReadHeaderTimeout: connectTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(listener) }() // until it is closed
	return "http://" + listener.Addr().String(), server.Close
}

// ServeHTTP answers a CONNECT request and gives the connection to its link. On a
// link that is cut the connection is reset, after the answer, as if the peer had
// done it.
func (p peerProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, known := p[r.Host]
	if r.Method != http.MethodConnect || !known {
		w.Header().Set("Connection", "close")
		http.Error(w, "the peer proxy does not serve this", http.StatusForbidden)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the connection has ended
	}
	_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	if err = errors.Join(err, conn.SetDeadline(time.Time{})); err != nil || buffered.Reader.Buffered() > 0 {
		_ = conn.Close()
		return
	}
	target.Go(conn)
}
