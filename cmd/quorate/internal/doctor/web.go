package doctor

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// web is what an endpoint answers over HTTP.
type web struct {
	server string // version of the server, empty if it is not known
	proxy  bool   // it is etcd's grpc-proxy
	err    error  // HTTP is not spoken
	// skew is how far the clock of the server is ahead of this machine's at least; negative if
	// it is behind; 0 if they may agree.
	skew  time.Duration
	clock bool // there was a Date
}

// answer is the answer to a request over HTTP.
type answer struct {
	status         int
	body           []byte
	date           time.Time // zero if there was none
	sent, received time.Time
	wantsTLS       bool
	err            error
}

// tlsWanted is the answer of Go's HTTPS servers to a plaintext request.
const tlsWanted = "Client sent an HTTP request to an HTTPS server"

// askWeb requests what gRPC does not provide. A server without HTTP is not a finding.
func (v *visit) askWeb(ctx context.Context) {
	a := v.request(ctx, v.tls, "/version")
	if v.web.err = a.err; a.err != nil {
		return
	}
	var version struct{ Etcdserver string }
	if json.Unmarshal(a.body, &version) == nil {
		v.web.server = version.Etcdserver
	}
	if !a.date.IsZero() {
		v.web.clock, v.web.skew = true, skew(a.date, a.sent, a.received)
	}
	v.web.proxy = v.request(ctx, v.tls, "/proxy/health").status == http.StatusOK
}

// skew returns by how much a clock that showed date, in whole seconds, at some moment between sent and
// received is ahead at least. Date is cut off to a second, so it is up to a second and the time of the
// request less than the difference of the clocks.
func skew(date, sent, received time.Time) time.Duration {
	switch end := date.Add(time.Second); {
	case date.After(received):
		return date.Sub(received)
	case end.Before(sent):
		return end.Sub(sent)
	}
	return 0
}

// request asks once, over a connection of its own.
func (v *visit) request(ctx context.Context, secure *tls.Config, path string) (a answer) {
	conn, err := v.dial(ctx)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) }) // ends what is under way
	defer stop()
	if secure != nil {
		secure = secure.Clone()
		secure.NextProtos = []string{"http/1.1"}
		conn = tls.Client(conn, secure)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cmp.Or(v.endpoint.ServerName, "etcd")+path, http.NoBody)
	if err != nil {
		return answer{err: err}
	}
	req.Close = true
	a.sent = time.Now().Round(0)
	if err := req.Write(conn); err != nil {
		return answer{err: err}
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	a.received = time.Now().Round(0)
	if err != nil {
		a.err = err
		return a
	}
	defer func() { _ = resp.Body.Close() }()
	a.status = resp.StatusCode
	a.body, _ = io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // what there is will do
	a.wantsTLS = a.status == http.StatusBadRequest && bytes.Contains(a.body, []byte(tlsWanted))
	a.date, _ = http.ParseTime(resp.Header.Get("Date")) // zero without one
	return a
}
