package channel

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/testpki"
)

// startProxy starts a proxy, which all clients use until the test ends. It connects to any address, and counts these
// connections.
func startProxy(t *testing.T) *atomic.Int32 {
	t.Helper()
	var connected atomic.Int32
	var copies sync.WaitGroup
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		copies.Add(1)
		defer copies.Done()
		server, err := net.Dial("tcp", r.RequestURI)
		if !assert.NoError(t, err) {
			return
		}
		connected.Add(1)
		client, _, err := w.(http.Hijacker).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		for _, ends := range [][2]net.Conn{{client, server}, {server, client}} {
			copies.Go(func() {
				_, _ = io.Copy(ends[0], ends[1])
				_, _ = ends[0].Close(), ends[1].Close()
			})
		}
	}))
	via := must(url.Parse(srv.URL))
	system := systemDialer
	systemDialer.proxy = func(string) *url.URL { return via }
	t.Cleanup(func() {
		systemDialer = system
		srv.Close()
		copies.Wait()
	})
	return &connected
}

func TestProxy(t *testing.T) {
	authority := testpki.New(t, "authority")
	plain, secure := startMember(t, "http://", nil), startMember(t, "https://", authority.Server(t))
	lis := must(net.Listen("unix", t.TempDir()+"/a.sock"))
	local := startMemberAt(t, lis, "unix://", nil)
	direct := grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	})
	for name, tt := range map[string]struct {
		member  *member
		opts    []grpc.DialOption
		proxied bool
	}{
		"plaintext":            {plain, nil, true},
		"TLS":                  {secure, nil, true},
		"Unix socket":          {local, nil, false},
		"grpc.WithNoProxy":     {plain, []grpc.DialOption{grpc.WithNoProxy()}, false},
		"a dialer of the user": {plain, []grpc.DialOption{direct}, false},
	} {
		t.Run(name, func(t *testing.T) {
			connected := startProxy(t)
			cfg := Config{Endpoints: []string{tt.member.endpoint}, DialOptions: tt.opts}
			if tt.member == secure {
				cfg.TLS = authority.Client()
			}
			c := newTestChannel(t, cfg)
			require.NoError(t, get(t, c))
			assert.Equal(t, tt.proxied, connected.Load() > 0)
			require.NoError(t, c.Close())
		})
	}
}
