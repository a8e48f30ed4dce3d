package registration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/resolver/etcd"
)

const (
	// pollInterval is the pause between two looks at what is waited for.
	pollInterval = 10 * time.Millisecond

	// away is the error of calls in an outage. Which of the two it is depends on whether an
	// attempt to connect has failed in the first second.
	away = "etcd (cannot be reached|does not answer)"
)

// While etcd is away a server leaves, another one comes, and what the watch needs is
// compacted. Calls go on meanwhile, and find the new server as soon as etcd is back.
func TestConvergesAfterCutAndCompaction(t *testing.T) {
	t.Run("short", func(t *testing.T) { converges(t, "short", 0) })
	// The pauses between attempts to connect have grown by then.
	t.Run("long", func(t *testing.T) { converges(t, "long", 5*time.Second) })
}

func converges(t *testing.T, name string, outage time.Duration) {
	client := connect(t)
	behind := connectPastTheLink(t)
	_, before := serve(t)
	_, after := serve(t)
	leaving := register(t, behind, etcd.Registration{Service: name, Address: before})
	conn := dial(t, client, name)
	callUntilOnly(t, conn, before)

	heal := cut(t)
	began := time.Now()
	require.NoError(t, leaving.Withdraw(labtest.Context(t)))
	coming := register(t, behind, etcd.Registration{Service: name, Address: after})
	resp, err := behind.Get(labtest.Context(t), coming.Key())
	require.NoError(t, err)
	_, err = behind.Compact(labtest.Context(t), resp.Header.Revision)
	require.NoError(t, err)
	for calls := 0; calls < 20 || time.Since(began) < outage; calls++ {
		addr, err := grpctest.Ask(labtest.Context(t), conn)
		require.NoError(t, err)
		require.Equal(t, before, addr, "it keeps what it knows")
		time.Sleep(pollInterval)
	}
	heal()
	healed := time.Now()
	callUntilOnly(t, conn, after)
	t.Logf("converged %v after the link was healed", time.Since(healed).Round(time.Millisecond))
}

// Dialling does not wait, a call gets a reason in time, and works when etcd is back.
func TestEtcdIsDownFromTheStart(t *testing.T) {
	const name = "down"
	_, addr := serve(t)
	register(t, connectPastTheLink(t), etcd.Registration{Service: name, Address: addr})
	heal := cut(t)
	conn := dial(t, connect(t), name)
	ctx := labtest.Within(t, labtest.Patience/2)
	_, err := grpctest.Ask(ctx, conn)
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.Regexp(t, `etcd: service "down": `+away, err.Error())

	heal()
	callUntilOnly(t, conn, addr)
}

// A channel without calls for a while closes its resolver, and has another one with the
// next call.
func TestIdleChannel(t *testing.T) {
	const name = "idle"
	client := connect(t)
	_, a := serve(t)
	_, b := serve(t)
	first := register(t, client, etcd.Registration{Service: name, Address: a})
	conn := dial(t, client, name, grpc.WithIdleTimeout(time.Second))
	callUntilOnly(t, conn, a)
	waitIdle(t, conn)

	require.NoError(t, first.Withdraw(labtest.Context(t)))
	register(t, client, etcd.Registration{Service: name, Address: b})
	callUntilOnly(t, conn, b)
	waitIdle(t, conn)

	heal := cut(t)
	server, err := grpctest.Ask(labtest.Context(t), conn)
	require.NoError(t, err, "etcd is away, but what it said last is known")
	require.Equal(t, b, server)
	heal()
	callUntilOnly(t, conn, b)
}

func waitIdle(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	for s := conn.GetState(); s != connectivity.Idle; s = conn.GetState() {
		require.True(t, conn.WaitForStateChange(labtest.Context(t), s))
	}
}

func TestNothingIsRegistered(t *testing.T) {
	const name = "nobody"
	client := connect(t)
	conn := dial(t, client, name)
	_, err := grpctest.Ask(labtest.Context(t), conn)
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	callUntilError(t, conn, `etcd: service "nobody": no endpoint is registered`)

	_, addr := serve(t)
	r := register(t, client, etcd.Registration{Service: name, Address: addr})
	callUntilOnly(t, conn, addr)
	require.NoError(t, r.Withdraw(labtest.Context(t)))
	callUntilError(t, conn, `etcd: service "nobody": no endpoint is registered`)

	heal := cut(t)
	callUntilError(t, conn, `etcd: service "nobody": etcd cannot be reached`)
	heal()
	callUntilError(t, conn, `etcd: service "nobody": no endpoint is registered`)
}

// callUntilError makes calls until one fails with the text.
func callUntilError(t *testing.T, conn *grpc.ClientConn, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := grpctest.Ask(labtest.Context(t), conn)
		return strings.HasPrefix(status.Convert(err).Message(), text)
	}, labtest.Patience, pollInterval, text)
}

// Two of three members are gone: what is left serves reads, and has no leader. A channel that is
// new gets the list all the same.
func TestQuorumIsLost(t *testing.T) {
	const name = "quorum"
	three := labtest.Start(t, lab.Config{})
	client := labtest.Client(t, clientv3.Config{Endpoints: []string{three.Members()[0].Endpoint()}})
	_, addr := serve(t)
	reg, events := observed(name, addr)
	reg.TTL = time.Minute // it outlives the outage
	register(t, client, reg)
	expect(t, events, etcd.Registered)

	for _, m := range three.Members()[1:] {
		require.NoError(t, m.Kill())
	}
	conn := dial(t, client, name)
	callUntilOnly(t, conn, addr)
	for _, m := range three.Members()[1:] {
		require.NoError(t, m.Restart(labtest.Context(t)))
	}
	_, other := serve(t)
	register(t, client, etcd.Registration{Service: name, Address: other})
	callUntilOnly(t, conn, addr, other)
	require.Empty(t, events, "the lease outlived it")
}
