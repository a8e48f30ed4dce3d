package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/proxy"
)

// TestMain sets the environment that net/http reads once.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"HTTPS_PROXY": "http://user:secret@proxy.example:3128", "NO_PROXY": "direct.example,10.0.0.0/8,.cluster.local",
		"https_proxy": "", "no_proxy": "", "REQUEST_METHOD": "",
	} {
		os.Setenv(name, value)
	}
	os.Exit(m.Run())
}

func TestFromEnvironment(t *testing.T) {
	for address, proxied := range map[string]bool{
		"etcd.example:2379": true, "11.0.0.1:2379": true, "[fd00::1]:2379": true,
		"direct.example:2379": false, "a.direct.example:2379": false, "10.1.2.3:2379": false, "etcd.cluster.local:2379": false,
		"localhost:2379": false, "127.0.0.2:2379": false, "[::1]:2379": false, ":2379": false, "no port": false, "unix:/etcd.example:2379": false,
	} {
		via := proxy.FromEnvironment(address)
		assert.Equal(t, proxied, via != nil, address)
		if proxied {
			assert.Equal(t, "proxy.example:3128", via.Host)
		}
	}
}

// gRPC's options are opaque: a new version of it may break this.
func TestDisabled(t *testing.T) {
	assert.True(t, proxy.Disabled([]grpc.DialOption{nil, grpc.WithUserAgent("x"), grpc.WithNoProxy()}))
	noProxy := grpc.WithNoProxy // is not inlined
	assert.True(t, proxy.Disabled([]grpc.DialOption{noProxy()}))
	assert.False(t, proxy.Disabled([]grpc.DialOption{
		nil, grpc.EmptyDialOption{}, grpc.WithLocalDNSResolution(), grpc.WithUserAgent("x"), grpc.WithContextDialer(nil), grpc.WithChainUnaryInterceptor(),
	}))
}

// dial connects through a proxy that reads a request and writes a text.
func dial(t *testing.T, ctx context.Context, via, answer string) (conn net.Conn, dialed string, asked *http.Request, err error) {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	at, err := url.Parse(via)
	require.NoError(t, err)
	requests := make(chan *http.Request, 1)
	go func() {
		req, _ := http.ReadRequest(bufio.NewReader(there))
		requests <- req
		_, _ = io.WriteString(there, answer)
	}()
	conn, err = proxy.Dial(ctx, at, "etcd.example:2379", func(_ context.Context, address string) (net.Conn, error) {
		dialed = address
		return here, nil
	})
	if err != nil {
		assert.NotContains(t, err.Error(), "secret")
		_, _ = here.Close(), there.Close()
	}
	return conn, dialed, <-requests, err
}

func TestDial(t *testing.T) {
	for via, want := range map[string]struct{ address, authorization string }{
		"http://proxy.example:3128":              {"proxy.example:3128", ""},
		"http://proxy.example":                   {"proxy.example:443", ""},
		"https://[fd00::1]":                      {"[fd00::1]:443", ""},
		"http://user:secret@proxy.example:3128/": {"proxy.example:3128", "Basic dXNlcjpzZWNyZXQ="},
		"http://user@proxy.example:3128":         {"proxy.example:3128", "Basic dXNlcjo="},
	} {
		grpctest.Bubble(t, via, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			conn, dialed, asked, err := dial(t, ctx, via, "HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nSETTINGS")
			require.NoError(t, err)
			assert.Equal(t, want.address, dialed)
			assert.Equal(t, "CONNECT etcd.example:2379", asked.Method+" "+asked.RequestURI)
			assert.Equal(t, want.authorization, asked.Header.Get("Proxy-Authorization"))
			cancel() // as gRPC does
			synctest.Wait()
			settings := make([]byte, len("SETTINGS"))
			_, err = io.ReadFull(conn, settings)
			require.NoError(t, err)
			assert.Equal(t, "SETTINGS", string(settings))
		})
	}
}

func TestDialErrors(t *testing.T) {
	const via = "http://user:secret@proxy.example:3128"
	for name, tt := range map[string]struct{ via, answer, want string }{
		"it refuses":         {via, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 9\r\n\r\n", "no connection to etcd.example:2379: 407 Proxy Authentication Required"},
		"it speaks no HTTP":  {via, "SSH-2.0-OpenSSH\r\n", `malformed HTTP response "SSH-2.0-OpenSSH"`},
		"it does not answer": {via, "HTTP/1.1 200", context.DeadlineExceeded.Error()},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			_, _, _, err := dial(t, grpctest.Within(t, time.Second), tt.via, tt.answer)
			assert.EqualError(t, err, "proxy proxy.example:3128 of HTTPS_PROXY: "+tt.want)
		})
	}
	for _, via := range []string{"socks5://proxy.example:1080", "https://user:secret@proxy.example:1080"} {
		at, err := url.Parse(via)
		require.NoError(t, err)
		_, err = proxy.Dial(t.Context(), at, "etcd.example:2379", nil)
		assert.EqualError(t, err, "proxy proxy.example:1080 of HTTPS_PROXY: the scheme "+at.Scheme+" is not supported, http is")
	}
}

// A response without an end does not fill the memory.
func TestResponseIsBounded(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	go func() {
		_, _ = http.ReadRequest(bufio.NewReader(there))
		_, err := io.WriteString(there, "HTTP/1.1 200 OK\r\n")
		for err == nil {
			_, err = io.WriteString(there, "X: y\r\n")
		}
	}()
	_, err := proxy.Dial(t.Context(), &url.URL{Scheme: "http", Host: "proxy.example:3128"}, "etcd.example:2379",
		func(context.Context, string) (net.Conn, error) { return here, nil })
	require.Error(t, err)
}
