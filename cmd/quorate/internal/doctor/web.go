package doctor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// web is what an endpoint answers over HTTP.
type web struct {
	answer         // to the request for the version
	server  string // version of the server, empty if it is not known
	proxy   bool   // it is etcd's grpc-proxy
	metrics []byte // of a member
}

// answer is the answer to a request over HTTP.
type answer struct {
	err    error // HTTP is not spoken
	status int   // 0 without an answer
	body   []byte
	took   time.Duration
	// skew is how far the clock of the server is ahead of this machine's at least; negative if
	// it is behind; 0 if they may agree.
	skew  time.Duration
	clock bool // there was a Date
}

// maxBody is enough for the metrics of a member.
const maxBody = 4 << 20

// tlsWanted is the answer of Go's HTTPS servers to a plaintext request.
const tlsWanted = "Client sent an HTTP request to an HTTPS server"

// askWeb requests what gRPC does not provide. A server without HTTP is not a finding.
func (v *visit) askWeb(ctx context.Context) {
	v.web.answer = v.request(ctx, v.tls, "/version")
	if v.web.err != nil {
		return
	}
	var version struct{ Etcdserver string }
	_ = json.Unmarshal(v.web.body, &version) // others answer something else
	v.web.server = version.Etcdserver
	// The proxy's /proxy/health takes long where no member answers.
	v.web.proxy = bytes.Contains(v.request(ctx, v.tls, "/proxy/metrics").body, []byte("etcd_grpc_proxy_"))
	v.web.metrics = v.request(ctx, v.tls, "/metrics").body
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
	scheme := "http"
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return v.dial(ctx) },
		DisableKeepAlives: true,
	}
	if secure != nil {
		scheme, transport.TLSClientConfig = "https", secure.Clone()
		transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+cmp.Or(v.endpoint.ServerName, "etcd")+path, http.NoBody)
	if err != nil {
		return answer{err: err}
	}
	sent := time.Now().Round(0)
	resp, err := transport.RoundTrip(req)
	received := time.Now().Round(0)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	a.status, a.took = resp.StatusCode, received.Sub(sent)
	a.body, _ = io.ReadAll(io.LimitReader(resp.Body, maxBody)) // what there is will do
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		a.clock, a.skew = true, skew(date, sent, received)
	}
	return a
}

// p99 returns a bound of 99 % of what a histogram of Prometheus counts, in milliseconds; 0 without one.
func p99(metrics []byte, histogram string) float64 {
	buckets := map[float64]float64{} // counts by bound, of all series
	for line := range strings.Lines(string(metrics)) {
		labels, ours := strings.CutPrefix(line, histogram+"_bucket{")
		_, le, _ := strings.Cut(labels, `le="`)
		bound, count, _ := strings.Cut(le, `"} `)
		if le, err := strconv.ParseFloat(bound, 64); ours && err == nil {
			n, _ := strconv.ParseFloat(strings.TrimSpace(count), 64) // 0 counts for nothing
			buckets[le] += n
		}
	}
	for _, le := range slices.Sorted(maps.Keys(buckets)) {
		if all := buckets[math.Inf(1)]; all > 0 && buckets[le] >= 0.99*all && !math.IsInf(le, 1) {
			return 1000 * le
		}
	}
	return 0
}
