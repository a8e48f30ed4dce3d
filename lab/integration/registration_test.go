package integration_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/resolver/etcd"
)

const (
	// shortTTL is that of endpoints whose end is waited for.
	shortTTL = 2 * time.Second
	// pollInterval is the pause between two looks at what is waited for.
	pollInterval = 10 * time.Millisecond
)

func register(t *testing.T, client *clientv3.Client, reg etcd.Registration) *etcd.Registrar {
	t.Helper()
	r, err := etcd.Register(labtest.Context(t), client, reg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), labtest.Timeout)
		defer cancel()
		assert.NoError(t, r.Withdraw(ctx))
	})
	return r
}

// list returns the addresses that are registered.
func list(t *testing.T, client *clientv3.Client, name string) []string {
	t.Helper()
	m, err := endpoints.NewManager(client, name)
	require.NoError(t, err)
	all, err := m.List(labtest.Context(t))
	require.NoError(t, err)
	addrs := []string{}
	for _, e := range all {
		addrs = append(addrs, e.Addr)
	}
	return addrs
}

// A registered process that is killed is on the list until its lease ends, and not for longer. Calls
// leave it when its connections break.
func TestServiceOfAKilledProcess(t *testing.T) {
	client := connect(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), serveEnv+"="+cluster.Members()[0].Endpoint())
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer func() {
		_ = stdin.Close()
		_ = child.Process.Kill() // it may be dead already
		_ = child.Wait()
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	victim, alive := strings.TrimSpace(line), grpctest.ServeHealth(t)
	register(t, client, etcd.Registration{Service: killedService, Address: alive})
	conn := dial(t, client, killedService)
	callUntilOnly(t, conn, victim, alive)

	require.NoError(t, child.Process.Kill())
	killed := time.Now()
	for failed := true; failed; time.Sleep(pollInterval) { // calls that are on it when it dies fail
		failed = false
		for range 10 {
			addr, err := grpctest.Ask(labtest.Context(t), conn)
			failed = failed || err != nil || addr != alive
		}
	}
	t.Logf("no call went to it %v after it was killed", time.Since(killed).Round(time.Millisecond))
	require.Eventually(t, func() bool {
		return assert.ObjectsAreEqual([]string{alive}, list(t, client, killedService))
	}, labtest.Timeout, pollInterval)
	t.Logf("off the list %v after it was killed, with a TTL of %v", time.Since(killed).Round(time.Millisecond), shortTTL)
}

// watched is a server that notes what is registered when it must stop.
type watched struct {
	*grpc.Server
	list   func() []string
	listed []string
}

func (w *watched) GracefulStop() {
	w.listed = w.list()
	w.Server.GracefulStop()
}

// Registered servers are replaced one by one under load, and no call fails.
func TestServicesAreReplacedUnderLoad(t *testing.T) {
	const name, size = "rolling", 3
	client := connect(t)
	conns := []*grpc.ClientConn{dial(t, client, name), dial(t, client, name), dial(t, client, name)}
	type instance struct {
		server *grpc.Server
		*etcd.Registrar
		addr string
	}
	start := func() instance {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server, addr := grpctest.ServeOn(t, listener, registerHealth), listener.Addr().String()
		return instance{server, register(t, client, etcd.Registration{Service: name, Address: addr}), addr}
	}
	running := []instance{start(), start(), start()}
	for _, conn := range conns {
		callUntilOnly(t, conn, running[0].addr, running[1].addr, running[2].addr)
	}
	l := startLoad(t, conns...)
	for range size {
		old := running[0]
		running = append(running[1:], start())
		l.more(t, 10*callers)
		server := &watched{Server: old.server, list: func() []string { return list(t, client, name) }}
		require.NoError(t, old.Shutdown(labtest.Context(t), server))
		require.NotContains(t, server.listed, old.addr, "it was withdrawn before it was told to stop")
		require.Len(t, server.listed, size)
	}
	l.more(t, 10*callers)
	l.end()
	require.Empty(t, l.failed)
	t.Logf("%d calls, none failed", l.done.Load())
}

// serveEnv makes the test program a service: its value is an endpoint of etcd.
const serveEnv = "QUORATE_LAB_SERVE"

// killedService is the service of processes that are killed.
const killedService = "killed"

func registerHealth(s grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(s, health.NewServer()) }

// serveUntilKilled registers a server, prints its address, and serves until its standard
// input ends, which is when its parent does. It returns the exit code.
func serveUntilKilled(endpoint string) int {
	err := fatal.Catch(func() {
		listener := fatal.OK(net.Listen("tcp", "127.0.0.1:0"))
		server := grpc.NewServer()
		registerHealth(server)
		go func() { _ = server.Serve(listener) }()
		client := fatal.OK(clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()}))
		fatal.OK(etcd.Register(context.Background(), client, etcd.Registration{
			Service: killedService, Address: listener.Addr().String(), TTL: shortTTL,
		}))
		fmt.Println(listener.Addr())
		_, _ = io.Copy(io.Discard, os.Stdin)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// dial returns a channel to a service, with one of our policies.
func dial(t *testing.T, client *clientv3.Client, name string) *grpc.ClientConn {
	t.Helper()
	b, err := etcd.NewBuilder(client, etcd.Config{})
	require.NoError(t, err)
	return dialWith(t, "etcd:///"+name, "quorate_round_robin", b)
}

// dialWith returns a channel with resolvers before gRPC's own.
func dialWith(t *testing.T, target, policy string, resolvers ...resolver.Builder) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithResolvers(resolvers...), grpc.WithNoProxy(),
		grpc.WithTransportCredentials(balancer.Credentials(insecure.NewCredentials())),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+policy+`":{}}]}`))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// callUntilOnly makes calls until as many in a row as it takes to be sure were answered by
// these servers, each of them, and no others.
func callUntilOnly(t *testing.T, conn *grpc.ClientConn, servers ...string) {
	t.Helper()
	ctx := grpctest.Within(t, testTimeout)
	for {
		answered := map[string]bool{}
		for range 10 * len(servers) {
			addr, err := grpctest.Ask(ctx, conn, grpc.WaitForReady(true))
			require.NoError(t, err)
			answered[addr] = true
		}
		only := len(answered) == len(servers)
		for _, s := range servers {
			only = only && answered[s]
		}
		if only {
			return
		}
		time.Sleep(pollInterval)
	}
}

// load is made by callers that call without a pause.
type load struct {
	done   atomic.Int64
	stop   context.CancelFunc
	ended  sync.WaitGroup
	mu     sync.Mutex
	failed []error
}

const callers = 16

func startLoad(t *testing.T, conns ...*grpc.ClientConn) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{stop: cancel}
	for i := range callers {
		l.ended.Go(func() {
			for ctx.Err() == nil {
				if _, err := grpctest.Ask(context.WithoutCancel(ctx), conns[i%len(conns)]); err != nil {
					l.mu.Lock()
					l.failed = append(l.failed, err)
					l.mu.Unlock()
				}
				l.done.Add(1)
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

// end returns when the last call has ended.
func (l *load) end() {
	l.stop()
	l.ended.Wait()
}

// more waits until so many more calls have ended.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	until := l.done.Load() + n
	require.Eventually(t, func() bool { return l.done.Load() >= until }, labtest.Timeout, pollInterval)
}
