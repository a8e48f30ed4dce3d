// Package proxy connects through the proxies that HTTPS_PROXY and NO_PROXY name, as gRPC does without a dialer of
// the program.
package proxy

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/endpoint"
)

// maxResponse bounds the response to CONNECT.
const maxResponse = 64 << 10

// FromEnvironment returns the proxy for an address as an Endpoint gives it, nil for none.
func FromEnvironment(address string) *url.URL {
	network, address := endpoint.DialTarget(address)
	if host, _, err := net.SplitHostPort(address); network != "tcp" || err != nil || host == "" {
		return nil // this machine, or invalid
	}
	via, _ := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: address}}) // only http can fail
	return via
}

// Disabled reports whether dial options contain grpc.WithNoProxy. gRPC does not expose that, so the option is
// recognised by the name of its function.
func Disabled(opts []grpc.DialOption) bool {
	return slices.ContainsFunc(opts, func(o grpc.DialOption) bool {
		v := reflect.Indirect(reflect.ValueOf(o))
		if v.Kind() != reflect.Struct || v.NumField() != 1 || v.Field(0).Kind() != reflect.Func {
			return false
		}
		f := runtime.FuncForPC(v.Field(0).Pointer())
		return f != nil && strings.Contains(f.Name(), ".WithNoProxy.func")
	})
}

// Dial connects to a TCP address through a proxy, to which dial connects. Its errors name the proxy without user and
// password.
func Dial(ctx context.Context, via *url.URL, address string, dial func(ctx context.Context, address string) (net.Conn, error)) (_ net.Conn, err error) {
	host := via.Host
	if via.Port() == "" {
		host = net.JoinHostPort(via.Hostname(), "443") // as gRPC
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("proxy %s of HTTPS_PROXY: %w", host, err)
		}
	}()
	if via.Scheme != "http" && (via.Scheme != "https" || via.User != nil) { // like gRPC, which also sends plaintext to it
		return nil, fmt.Errorf("the scheme %s is not supported, http is", via.Scheme)
	}
	conn, err := dial(ctx, host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = connect(conn, via.User, address)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close() // the address did not get it
		return nil, err
	}
	return conn, nil
}

// connect makes the proxy at the other end of conn connect to an address.
func connect(conn net.Conn, user *url.Userinfo, address string) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Host: address}, Header: http.Header{"User-Agent": {"grpc-go/" + grpc.Version}}}
	if user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(byteReader{io.LimitReader(conn, maxResponse)}), req)
	if err == nil && resp.StatusCode/100 != 2 { // its body is not read
		err = fmt.Errorf("no connection to %s: %s", address, resp.Status)
	}
	return err
}

// byteReader reads single bytes: what follows the response stays in the connection.
type byteReader struct{ io.Reader }

func (r byteReader) Read(b []byte) (int, error) { return r.Reader.Read(b[:min(1, len(b))]) }
