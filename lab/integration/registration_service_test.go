package integration_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"

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
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/resolver/etcd"
)

// serveEnv has the test program be a service: its value is an endpoint of etcd.
const serveEnv = "QUORATE_LAB_SERVE"

// killedService is the service of processes that are killed.
const killedService = "killed"

func registerHealth(s grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(s, health.NewServer()) }

// serveUntilKilled registers a server, tells its address, and serves until its standard
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

// serve runs a server until the test ends it, or at its end.
func serve(t *testing.T) (server *grpc.Server, addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return grpctest.ServeOn(t, listener, registerHealth), listener.Addr().String()
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
