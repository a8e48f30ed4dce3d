// Package grpctest has what tests of channels and of the resolvers below them share: servers, and a channel that records.
package grpctest

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
)

// Bubble runs a subtest in virtual time.
func Bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// Within returns a context that ends after d, and with the test.
func Within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Serve runs a server on the loopback interface until the end of the test, and returns its address.
func Serve(t testing.TB, register func(grpc.ServiceRegistrar), opts ...grpc.ServerOption) (address *net.TCPAddr) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ServeOn(t, listener, register, opts...)
	return listener.Addr().(*net.TCPAddr)
}

// ServeOn runs a server on a listener until the end of the test, if it was not stopped before.
func ServeOn(t testing.TB, listener net.Listener, register func(grpc.ServiceRegistrar), opts ...grpc.ServerOption) *grpc.Server {
	t.Helper()
	server := grpc.NewServer(opts...)
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // before it began to serve
			t.Error(err)
		}
	})
	return server
}

// CountingListener counts the connections that it accepts.
type CountingListener struct {
	net.Listener
	Accepted *atomic.Int32
}

// Accept waits for the next connection.
func (l CountingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.Accepted.Add(1)
	}
	return conn, err
}

// ServeHealth serves health checks, for Ask.
func ServeHealth(t testing.TB) (address string) {
	t.Helper()
	return Serve(t, func(s grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(s, health.NewServer()) }).String()
}

// Ask makes a health check, and returns the address of the server that answered.
func Ask(ctx context.Context, conn grpc.ClientConnInterface, opts ...grpc.CallOption) (string, error) {
	var p peer.Peer
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, append(opts, grpc.Peer(&p))...); err != nil {
		return "", err
	}
	return p.Addr.String(), nil
}

// AskUntilAll makes calls until each of the servers has answered. No other may.
func AskUntilAll(ctx context.Context, t testing.TB, conn grpc.ClientConnInterface, servers ...string) {
	t.Helper()
	for left := slices.Clone(servers); len(left) > 0; time.Sleep(5 * time.Millisecond) {
		address, err := Ask(ctx, conn, grpc.WaitForReady(true))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(servers, address) {
			t.Fatalf("%s has answered, which is none of %q", address, servers)
		}
		left = slices.DeleteFunc(left, func(s string) bool { return s == address })
	}
}

// Log has the lines of one component in gRPC's log.
type Log struct {
	component string
	mu        sync.Mutex
	lines     []line
}

type line struct{ severity, text string }

// NewLog returns a Log, to which gRPC writes from now on. It is called before tests run.
func NewLog(component string) *Log {
	l := &Log{component: "[" + component + "]"}
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(l, io.Discard, io.Discard)) // the first gets every line
	return l
}

// Write adds a line of gRPC's log.
func (l *Log) Write(b []byte) (int, error) {
	// A line begins with the time and the severity.
	if severity, text, ours := strings.Cut(string(b), l.component); ours {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, line{severity, strings.TrimSpace(text)})
	}
	return len(b), nil
}

// About returns the lines that contain a text.
func (l *Log) About(text string) []string { return l.find("", text) }

// Warnings returns the warnings that contain a text.
func (l *Log) Warnings(text string) []string { return l.find("WARNING", text) }

func (l *Log) find(severity, text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if strings.Contains(line.severity, severity) && strings.Contains(line.text, text) {
			found = append(found, line.text)
		}
	}
	return found
}
