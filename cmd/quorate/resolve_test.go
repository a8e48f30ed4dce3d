package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/lab"
)

// backend is a gRPC server that has the health service.
func backend(t *testing.T) (addr string, service *grpchealth.Server, srv *grpc.Server) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv, service = grpc.NewServer(), grpchealth.NewServer()
	healthpb.RegisterHealthServer(srv, service)
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)
	return lis.Addr().String(), service, srv
}

// patience is far above what any of these tests takes.
const patience = time.Minute

// live runs a command until the test ends, and returns the lines that it prints.
func live(t *testing.T, args ...string) *bufio.Scanner {
	t.Helper()
	limited, end := context.WithTimeout(t.Context(), patience)
	ctx, cancel := context.WithCancelCause(limited)
	r, w := io.Pipe()
	cmd := newResolveCommand()
	cmd.SetArgs(args)
	cmd.SetOut(w)
	cmd.SetErr(io.Discard)
	ended := make(chan int)
	go func() {
		defer close(ended)
		execute(ctx, cmd)
		_ = w.Close()
	}()
	t.Cleanup(func() {
		cancel(errShown)
		_ = r.Close()
		<-ended
		end()
	})
	return bufio.NewScanner(r)
}

// requireLine reads lines until one contains all of want.
func requireLine(t *testing.T, lines *bufio.Scanner, want ...string) {
	t.Helper()
	var seen []string
	for lines.Scan() {
		seen = append(seen, lines.Text())
		missing := false
		for _, w := range want {
			missing = missing || !strings.Contains(lines.Text(), w)
		}
		if !missing {
			return
		}
	}
	require.Fail(t, "a line is missing", "no line with %q in\n%s", want, strings.Join(seen, "\n"))
}

func TestResolveShowsHowEndpointsAre(t *testing.T) {
	a, service, _ := backend(t)
	b, _, srv := backend(t)
	lines := live(t, "static:///"+a+","+b, "--health", "--health-every", "20ms")
	requireLine(t, lines, "2 endpoints")
	requireLine(t, lines, "+ "+b)
	requireLine(t, lines, " is serving (served)")
	requireLine(t, lines, " is serving (served)")
	service.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	requireLine(t, lines, a+" is not serving (refusing)")
	srv.Stop()
	requireLine(t, lines, b+" is dead (connect failed", "connection refused")
}

func TestResolveFollowsEtcd(t *testing.T) {
	cluster, err := lab.Start(t.Context(), lab.Config{Members: 1, Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, cluster.Close()) })
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	manager, err := endpoints.NewManager(client, "billing")
	require.NoError(t, err)
	require.NoError(t, manager.AddEndpoint(t.Context(), "billing/a", endpoints.Endpoint{Addr: "10.0.0.1:80", Metadata: "blue"}))

	lines := live(t, "etcd:///billing", "--endpoints", strings.Join(cluster.Endpoints(), ","))
	requireLine(t, lines, `+ 10.0.0.1:80  "blue"`)
	require.NoError(t, manager.AddEndpoint(t.Context(), "billing/b", endpoints.Endpoint{Addr: "10.0.0.2:80"}))
	requireLine(t, lines, "2 endpoints")
	requireLine(t, lines, "+ 10.0.0.2:80")
	require.NoError(t, manager.AddEndpoint(t.Context(), "billing/a", endpoints.Endpoint{Addr: "10.0.0.1:80", Metadata: "green"}))
	requireLine(t, lines, `~ 10.0.0.1:80  "green"`)
	require.NoError(t, manager.DeleteEndpoint(t.Context(), "billing/a"))
	requireLine(t, lines, "- 10.0.0.1:80")
}

func TestResolveOnce(t *testing.T) {
	a, _, _ := backend(t)
	for _, tt := range []struct {
		args           string
		status         int
		stdout, stderr string
	}{
		{"static:///" + a + " --once", exitOK, "+ " + a, ""},
		{"static:///" + a + " --once --health", exitOK, a + " is serving", ""},
		{"static:///" + a + " --for 1ms", exitOK, "1 endpoint", ""},
		{"static:///127.0.0.1 --once", exitFailure, "", `"127.0.0.1" is not HOST:PORT`},
		{"dns:///localhost:http:80 --once", exitFailure, "", "localhost:http:80"},
		{"consul:///billing", exitFailure, "", `scheme "consul"`},
		{"billing", exitFailure, "", "has no scheme"},
		{"", exitFailure, "", "resolve takes one target"},
		{"static:///" + a + " --health etcd", exitFailure, "", "--health=etcd"},
		{"static:///" + a + " --health=http", exitFailure, "", `it is "grpc" or "etcd"`},
		{"static:///" + a + " --health-every 0s", exitFailure, "", "--health-every must be positive"},
		{"static:///" + a + " --health-cacert nosuch.pem", exitFailure, "", "--health-cacert: open nosuch.pem"},
		{"kubernetes:///billing --kubeconfig nosuch.yaml", exitFailure, "", "nosuch.yaml"},
		{"etcd:///billing --user root", exitFailure, "", passwordVariable},
	} {
		t.Run(tt.args, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			status, stdout, stderr := execCommand(ctx, newResolveCommand(), strings.Fields(tt.args))
			assert.Equal(t, tt.status, status)
			assert.Contains(t, stdout, tt.stdout)
			assert.Contains(t, stderr, tt.stderr)
		})
	}
}

func TestResolveJSON(t *testing.T) {
	a, _, _ := backend(t)
	status, stdout, _ := execCommand(t.Context(), newResolveCommand(), []string{"static:///" + a, "--once", "--json", "--health"})
	assert.Equal(t, exitOK, status)
	lines := json.NewDecoder(strings.NewReader(stdout))
	var update struct {
		Time      time.Time
		Endpoints []struct {
			Addresses []string
			Weight    int
		}
	}
	require.NoError(t, lines.Decode(&update))
	assert.WithinDuration(t, time.Now(), update.Time, time.Minute)
	require.Len(t, update.Endpoints, 1)
	assert.Equal(t, []string{a}, update.Endpoints[0].Addresses)
	assert.Equal(t, 1, update.Endpoints[0].Weight)
	var change struct{ Endpoint, State, Evidence string }
	require.NoError(t, lines.Decode(&change))
	assert.Equal(t, struct{ Endpoint, State, Evidence string }{a, "serving", "served"}, change)
}

// With --once, --for bounds how long the answer is waited for.
func TestResolveOnceWithoutAnAnswer(t *testing.T) {
	deaf, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = deaf.Close() }()
	status, _, stderr := execCommand(t.Context(), newResolveCommand(),
		[]string{"dns:///a.example.:80", "--server", deaf.LocalAddr().String(), "--once", "--for", "1ms"})
	assert.Equal(t, exitFailure, status)
	assert.Contains(t, stderr, "no answer within 1ms (--for)")
}

// It ends when nobody reads any more.
func TestResolveWithoutAReader(t *testing.T) {
	r, w := io.Pipe()
	require.NoError(t, r.Close())
	var f resolveFlags
	target := manual.NewBuilderWithScheme("test")
	target.InitialState(resolver.State{})
	assert.ErrorIs(t, f.show(t.Context(), w, target, "test:///x", nil, nil), io.ErrClosedPipe)
}

// silence answers for one endpoint, and for others never.
type silence struct{ except string }

func (p silence) Probe(ctx context.Context, conn grpc.ClientConnInterface, tell func(health.Report)) {
	if strings.HasSuffix(conn.(*grpc.ClientConn).Target(), p.except) {
		tell(health.Report{Kind: health.Served})
		return
	}
	<-ctx.Done()
}

// An endpoint that goes is not waited for.
func TestResolveOnceWhileEndpointsGo(t *testing.T) {
	r := manual.NewBuilderWithScheme("test")
	a, b := resolver.Endpoint{Addresses: []resolver.Address{{Addr: "a:1"}}}, resolver.Endpoint{Addresses: []resolver.Address{{Addr: "b:1"}}}
	r.InitialState(resolver.State{Endpoints: []resolver.Endpoint{a, b}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	f := resolveFlags{once: true, probeEvery: time.Second}
	go func() {
		ended <- f.show(ctx, in, r, "test:///x", silence{"a:1"}, insecure.NewCredentials())
		_ = in.Close()
	}()
	requireLine(t, bufio.NewScanner(out), "a:1 is serving")
	go func() { _, _ = io.Copy(io.Discard, out) }()
	r.UpdateState(resolver.State{Endpoints: []resolver.Endpoint{a}})
	assert.ErrorIs(t, <-ended, errShown)
}
