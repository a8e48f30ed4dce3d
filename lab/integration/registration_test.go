package integration_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
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
	doomed, alive := strings.TrimSpace(line), grpctest.ServeHealth(t)
	register(t, client, etcd.Registration{Service: killedService, Address: alive})
	conn := dial(t, client, killedService)
	callUntilOnly(t, conn, doomed, alive)

	require.NoError(t, child.Process.Kill())
	killed := time.Now()
	for failed := true; failed; { // calls that are on it when it dies fail
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
		server, addr := serve(t)
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
