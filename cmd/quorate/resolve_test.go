package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
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
	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/etcdtest"
)

// backend is a gRPC server that has the health service.
func backend(t *testing.T) (addr string, service *grpchealth.Server, srv *grpc.Server) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	service = grpchealth.NewServer()
	srv = grpctest.ServeOn(t, lis, func(s grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(s, service) })
	return lis.Addr().String(), service, srv
}

// live runs a command until the test ends, and returns the lines that it prints.
func live(t *testing.T, args ...string) *bufio.Scanner {
	t.Helper()
	limited, end := context.WithTimeout(t.Context(), testTimeout)
	ctx, cancel := context.WithCancelCause(limited)
	r, w := io.Pipe()
	cmd := newResolveCommand()
	cmd.SetArgs(args)
	cmd.SetOut(w)
	cmd.SetErr(io.Discard)
	ended := make(chan int)
	go func() {
		defer close(ended)
		cli.Execute(ctx, cmd)
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

	alone := live(t, "static:///"+b, "--health", "--health-every", "20ms") // the other command may have said already that b is dead
	requireLine(t, alone, b+" is serving (served)")
	srv.Stop()
	requireLine(t, alone, b+" is dead (") // its connection failed, or under load it did not answer in time
}

func TestResolveFollowsEtcd(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Config{})
	cluster, client := etcd.Lab, etcd.Client
	manager, err := endpoints.NewManager(client, "billing")
	require.NoError(t, err)
	require.NoError(t, manager.AddEndpoint(t.Context(), "billing/a", endpoints.Endpoint{Addr: "10.0.0.1:80", Metadata: "blue"}))

	t.Setenv("ETCDCTL_ENDPOINTS", strings.Join(cluster.Endpoints(), ","))
	status, _, stderr := clitest.Exec(t.Context(), newResolveCommand(), "etcd:///nobody", "--once")
	assert.Equal(t, cli.Negative, status)
	assert.Contains(t, stderr, `the target resolves to no endpoint: etcd: service "nobody": no endpoint is registered`)

	lines := live(t, "etcd:///billing")
	requireLine(t, lines, `+ 10.0.0.1:80  "blue"`)
	require.NoError(t, manager.AddEndpoint(t.Context(), "billing/b", endpoints.Endpoint{Addr: "10.0.0.2:80"}))
	requireLine(t, lines, "2 endpoints")
	requireLine(t, lines, "+ 10.0.0.2:80")
	require.NoError(t, manager.AddEndpoint(t.Context(), "billing/a", endpoints.Endpoint{Addr: "10.0.0.1:80", Metadata: "green"}))
	requireLine(t, lines, `~ 10.0.0.1:80  "green"`)
	require.NoError(t, manager.DeleteEndpoint(t.Context(), "billing/a"))
	requireLine(t, lines, "- 10.0.0.1:80")
}

// The exit status is 0 only if all endpoints serve, like that of etcdctl's "endpoint health". With --once, --duration bounds the
// wait for the answer.
func TestResolveOnce(t *testing.T) {
	a, _, _ := backend(t)
	refusing, service, _ := backend(t)
	service.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	const dead = "127.0.0.1:1" // given to no socket that asks for any port
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	silentUDP, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silentUDP.Close()
	for _, tt := range []struct {
		args           string
		status         int
		stdout, stderr string
	}{
		{"static:///" + a + " --once", cli.OK, "+ " + a, ""},
		{"static:///" + a + " --once --health --health-every 20s", cli.OK, a + " is serving", ""},
		{"static:///" + a + "," + refusing + " --once --health", cli.Negative, "", "1 of 2 endpoints do not serve: " + refusing + " is not serving"},
		{"static:///" + a + "," + dead + " --once --health", cli.Negative, "", "1 of 2 endpoints do not serve: " + dead + " is dead"},
		{"static:///" + dead + " --once --health", cli.Negative, "", "1 of 1 endpoints do not serve"},
		{"static:///" + silent.Addr().String() + " --once --health", cli.Negative, "", silent.Addr().String() + " is dead"},
		{"dns:///a.example.:80 --server " + silentUDP.LocalAddr().String() + " --once --duration 1ms", cli.Failure, "", "no answer within 1ms (--duration)"},
		{"static:///" + a + " --duration 1ms", cli.OK, "1 endpoint", ""},
		{"static:///" + a + ";weight=2;zone=eu-a --once", cli.OK, "+ " + a + `  weight 2  {"zone":"eu-a"}`, ""},
		{"static:///127.0.0.1 --once", cli.Failure, "", `"127.0.0.1" is not HOST:PORT`},
		{"static:///b:99999 --once", cli.Failure, "", `port "99999"`},
		{"etcd:///svc/ --once", cli.Failure, "", `target "etcd:///svc/": the name of the service is missing, or ends with a slash`},
		{"etcd:svc/ --once", cli.Failure, "", "ends with a slash"},
		{"etcd://u:p@h/%zz --once", cli.Failure, "", `target "etcd://xxxxx@h/%zz" is no URL`},
		{"etcd://10.0.0.1:2379/svc --once", cli.Failure, "", "write etcd:///SERVICE, and --endpoints"},
		{"etcd:///svc?a=b --once", cli.Failure, "", "have no meaning in it"},
		{"dns:///localhost:http:80 --once", cli.Failure, "", "localhost:http:80"},
		{"consul://u:p@h/billing", cli.Failure, "", `scheme "consul" of target "consul://xxxxx@h/billing"`},
		{"", cli.Failure, "", "resolve takes one target"},
		{"static:///" + a + " --health etcd", cli.Failure, "", "--health=etcd"},
		{"static:///" + a + " --health=http", cli.Failure, "", `it is "grpc" or "etcd"`},
		{"static:///" + a + " --health-every 0s", cli.Failure, "", "--health-every must be positive"},
		{"static:///" + a + " --health-cacert nosuch.pem", cli.Failure, "", "--health-cacert: open nosuch.pem"},
		{"etcd:///billing --user root", cli.Failure, "", "--user needs a name and a password; the password may also be in ETCDCTL_PASSWORD"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			status, stdout, stderr := clitest.Exec(grpctest.Within(t, testTimeout), newResolveCommand(), strings.Fields(tt.args)...)
			assert.Equal(t, tt.status, status)
			assert.Contains(t, stdout, tt.stdout)
			assert.Contains(t, stderr, tt.stderr)
		})
	}
}

func TestResolveJSON(t *testing.T) {
	a, _, _ := backend(t)
	status, stdout, _ := clitest.Exec(t.Context(), newResolveCommand(), "static:///"+a, "--once", "--json", "--health", "--health-every", "20s")
	assert.Equal(t, cli.OK, status)
	lines := json.NewDecoder(strings.NewReader(stdout))
	var update struct {
		Type      string
		Time      time.Time
		Endpoints []struct {
			Addresses []string
			Weight    int
		}
	}
	require.NoError(t, lines.Decode(&update))
	assert.Equal(t, "endpoints", update.Type)
	assert.WithinDuration(t, time.Now(), update.Time, time.Minute)
	require.Len(t, update.Endpoints, 1)
	assert.Equal(t, []string{a}, update.Endpoints[0].Addresses)
	assert.Equal(t, 1, update.Endpoints[0].Weight)
	var change struct{ Type, Endpoint, State, Evidence string }
	for change.State != "serving" { // a busy machine may be late with the first answer
		require.NoError(t, lines.Decode(&change))
	}
	assert.Equal(t, struct{ Type, Endpoint, State, Evidence string }{"health", a, "serving", "served"}, change)
}

func TestResolveJSONError(t *testing.T) {
	closed, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	lines := live(t, "dns:///a.example.:80", "--server", closed.LocalAddr().String(), "--json")
	require.True(t, lines.Scan())
	var line struct{ Type, Error string }
	require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
	assert.Equal(t, "error", line.Type)
	assert.Contains(t, line.Error, "a.example.")
}

// Variables of etcdctl count unless their flag is given.
func TestResolveReadsVariablesOfEtcdctl(t *testing.T) {
	cluster, err := lab.Start(t.Context(), lab.Config{Members: 1, TLS: true, ClientCertAuth: true, Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, cluster.Close()) })
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints(), TLS: cluster.ClientTLS()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	manager, err := endpoints.NewManager(client, "billing")
	require.NoError(t, err)
	require.NoError(t, manager.AddEndpoint(t.Context(), "billing/a", endpoints.Endpoint{Addr: "10.0.0.1:80"}))

	files := cluster.TLSFiles()
	for name, value := range map[string]string{
		"ENDPOINTS": strings.TrimPrefix(cluster.Endpoints()[0], "https://"), "CACERT": "nosuch.pem", "CERT": files.ClientCert, "KEY": files.ClientKey,
	} {
		t.Setenv("ETCDCTL_"+name, value)
	}
	requireLine(t, live(t, "etcd:///billing", "--cacert", files.CA), "+ 10.0.0.1:80")
}

// A variable of etcdctl that is wrong is named, and other sources do not read it.
func TestResolveNamesTheVariableThatIsWrong(t *testing.T) {
	t.Setenv("ETCDCTL_CACERT", "nosuch.pem")
	status, _, stderr := clitest.Exec(t.Context(), newResolveCommand(), "etcd:///billing", "--once")
	assert.Equal(t, cli.Failure, status)
	assert.Contains(t, stderr, "ETCDCTL_CACERT: open nosuch.pem")
	status, _, stderr = clitest.Exec(t.Context(), newResolveCommand(), "static:///a:1", "--once")
	assert.Equal(t, cli.OK, status, stderr)
}

// The command ends when its output is closed.
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

// With --once the command does not wait for an endpoint that is gone.
func TestResolveOnceWhileEndpointsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := manual.NewBuilderWithScheme("test")
		a, b := resolver.Endpoint{Addresses: []resolver.Address{{Addr: "a:1"}}}, resolver.Endpoint{Addresses: []resolver.Address{{Addr: "b:1"}}}
		r.InitialState(resolver.State{Endpoints: []resolver.Endpoint{a, b}})
		ctx := grpctest.Within(t, testTimeout)
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
	})
}
