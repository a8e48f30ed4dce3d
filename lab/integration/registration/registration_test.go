package registration_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/resolver/etcd"
)

// shortTTL is that of endpoints whose end is waited for.
const shortTTL = 2 * time.Second

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

// A process that is killed is on the list until its lease ends, and not for longer. Calls
// leave it when its connections break.
func TestProcessIsKilled(t *testing.T) {
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
	doomed := strings.TrimSpace(line)
	_, alive := serve(t)
	register(t, client, etcd.Registration{Service: deadly, Address: alive})
	conn := dial(t, client, deadly)
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
		return assert.ObjectsAreEqual([]string{alive}, list(t, client, deadly))
	}, labtest.Patience, pollInterval)
	t.Logf("off the list %v after it was killed, with a TTL of %v", time.Since(killed).Round(time.Millisecond), shortTTL)
}

// watched is a server that checks that callers have left it when it must stop.
type watched struct {
	*grpc.Server
	client *clientv3.Client
	t      *testing.T
	name   string
	listed []string // when it was stopped
}

func (w *watched) GracefulStop() {
	w.listed = list(w.t, w.client, w.name)
	w.Server.GracefulStop()
}

// Servers are replaced one by one under load, and no call fails.
func TestRollingRestartUnderLoad(t *testing.T) {
	const name, size, rounds = "rolling", 3, 1
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
	var running []instance
	for range size {
		running = append(running, start())
	}
	for _, conn := range conns {
		callUntilOnly(t, conn, running[0].addr, running[1].addr, running[2].addr)
	}
	l := startLoad(t, conns...)
	for range size * rounds {
		old := running[0]
		running = append(running[1:], start())
		l.more(t, 10*callers)
		server := &watched{Server: old.server, client: client, t: t, name: name}
		require.NoError(t, old.Shutdown(labtest.Context(t), server))
		require.NotContains(t, server.listed, old.addr, "it was withdrawn before it was told to stop")
		require.Len(t, server.listed, size)
	}
	l.more(t, 10*callers)
	l.end()
	require.Empty(t, l.failed)
	t.Logf("%d calls, none failed", l.done.Load())
}

// A lease that is revoked takes the endpoint with it. It comes back.
func TestLeaseIsRevoked(t *testing.T) {
	const name = "revoked"
	client := connect(t)
	reg, events := observed(name, "10.0.0.1:1")
	r := register(t, client, reg)
	first := expect(t, events, etcd.Registered)
	require.False(t, first.Again)
	_, err := client.Revoke(labtest.Context(t), first.Lease)
	require.NoError(t, err)
	lost := expect(t, events, etcd.Lost)
	require.ErrorIs(t, lost.Err, rpctypes.ErrLeaseNotFound)
	again := expect(t, events, etcd.Registered)
	require.True(t, again.Again)
	require.NotEqual(t, first.Lease, again.Lease)
	require.Equal(t, []string{"10.0.0.1:1"}, list(t, client, name))

	require.NoError(t, r.Withdraw(labtest.Context(t)))
	expect(t, events, etcd.Withdrawn)
	require.Empty(t, list(t, client, name))
}

// A server that is cut off from etcd for longer than its TTL is gone, and comes back.
func TestServerIsCutOff(t *testing.T) {
	const name = "cutoff"
	behind := connectPastTheLink(t)
	reg, events := observed(name, "10.0.0.1:1")
	reg.TTL = shortTTL
	register(t, connect(t), reg)
	first := expect(t, events, etcd.Registered)
	heal := cut(t)
	lost := expect(t, events, etcd.Lost)
	require.ErrorIs(t, lost.Err, clientv3.ErrLeaseUnanswered)
	require.Equal(t, first.Lease, lost.Lease)
	require.Eventually(t, func() bool { return len(list(t, behind, name)) == 0 }, labtest.Patience, pollInterval)
	heal()
	healed := time.Now()
	for e := lost; e.State != etcd.Registered; {
		select {
		case e = <-events:
			require.Contains(t, []etcd.State{etcd.Lost, etcd.Registered}, e.State, "%v", e.Err)
		case <-labtest.Context(t).Done():
			require.Fail(t, "it is not registered again")
		}
	}
	t.Logf("registered again %v after the link was healed", time.Since(healed).Round(time.Millisecond))
	require.Equal(t, []string{"10.0.0.1:1"}, list(t, behind, name))
}

// Two processes register the same address. The later one has it; when it goes, the first
// one takes its place.
func TestSameAddressTwice(t *testing.T) {
	const name, addr = "twice", "10.0.0.1:1"
	one, two := connect(t), connect(t)
	reg, events := observed(name, addr)
	older := register(t, one, reg)
	expect(t, events, etcd.Registered)
	newer := register(t, two, etcd.Registration{Service: name, Address: addr, Weight: 2})
	expect(t, events, etcd.Superseded)
	require.ErrorIs(t, older.SetWeight(labtest.Context(t), 3), etcd.ErrSuperseded)

	require.NoError(t, newer.Withdraw(labtest.Context(t)))
	again := expect(t, events, etcd.Registered)
	require.True(t, again.Again)
	resp, err := one.Get(labtest.Context(t), older.Key())
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	require.JSONEq(t, `{"Op":0,"Addr":"10.0.0.1:1","Metadata":{"weight":3}}`, string(resp.Kvs[0].Value))
	require.EqualValues(t, again.Lease, resp.Kvs[0].Lease)

	// The older one does not take with it what the newer one has.
	newer = register(t, two, etcd.Registration{Service: name, Address: addr})
	expect(t, events, etcd.Superseded)
	require.NoError(t, older.Withdraw(labtest.Context(t)))
	resp, err = two.Get(labtest.Context(t), newer.Key())
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	require.EqualValues(t, newer.State().Lease, resp.Kvs[0].Lease)
}

// etcd is away when a server shuts down: it stops all the same, in good time.
func TestShutdownInAnOutage(t *testing.T) {
	server, addr := serve(t)
	r := register(t, connect(t), etcd.Registration{Service: "outage", Address: addr, DrainPause: -1})
	heal := cut(t)
	ctx := labtest.Within(t, 15*time.Second)
	err := r.Shutdown(ctx, server)
	require.ErrorContains(t, err, `withdrawing "outage/`+addr)
	require.NoError(t, ctx.Err(), "the withdrawal has a third of the time")
	heal()
	require.NoError(t, r.Withdraw(labtest.Context(t)), "it can be made up for")
}
