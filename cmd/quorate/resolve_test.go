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
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/lab"
)

// backend is a gRPC server that has the health service.
func backend(t *testing.T) (addr string, health *grpchealth.Server, srv *grpc.Server) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv, health = grpc.NewServer(), grpchealth.NewServer()
	healthpb.RegisterHealthServer(srv, health)
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)
	return lis.Addr().String(), health, srv
}

// live runs a command until the test ends, and returns the lines that it prints.
func live(t *testing.T, args ...string) *bufio.Scanner {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	r, w := io.Pipe()
	cmd := newResolveCommand()
	cmd.SetArgs(args)
	cmd.SetOut(w)
	cmd.SetErr(io.Discard)
	ended := make(chan int)
	go func() {
		defer close(ended)
		execute(ctx, cmd)
	}()
	t.Cleanup(func() {
		cancel(errShown)
		_ = r.Close()
		<-ended
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
	a, health, _ := backend(t)
	b, _, srv := backend(t)
	lines := live(t, "static:///"+a+","+b, "--health", "--health-every", "20ms")
	requireLine(t, lines, "2 endpoints")
	requireLine(t, lines, "+ "+b)
	requireLine(t, lines, " is serving (served)")
	requireLine(t, lines, " is serving (served)")
	health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
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
		{"static:///" + a + " --health=http", exitFailure, "", `it is "grpc" or "etcd"`},
		{"static:///" + a + " --health-every 0s", exitFailure, "", "--health-every must be positive"},
		{"static:///" + a + " --health-cacert nosuch.pem", exitFailure, "", "--health-cacert: open nosuch.pem"},
		{"kubernetes:///billing --kubeconfig nosuch.yaml", exitFailure, "", "nosuch.yaml"},
		{"etcd:///billing --user root", exitFailure, "", passwordVariable},
	} {
		t.Run(tt.args, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
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
