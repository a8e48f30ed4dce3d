package lab_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
)

// TestFaults shows each fault on one cluster, one after the other; each case leaves
// the cluster whole.
func TestFaults(t *testing.T) {
	c := start(t, lab.Config{})
	assert.Nil(t, c.ClientTLS())
	assert.Zero(t, c.TLSFiles())
	assert.Nil(t, c.PeerLink(c.Members()[0], c.Members()[0]))
	for name, fault := range map[string]func(*testing.T, *lab.Cluster){
		"kill and restart":      testKillAndRestart,
		"terminate and restart": testTerminateAndRestart,
		"freeze and continue":   testFreezeAndContinue,
		"frozen leader":         testFrozenLeader,
		"move leader":           testMoveLeader,
		"lost majority":         testLostMajority,
		"lost port":             testLostPort,
		"isolated follower":     testIsolatedFollower,
		"isolated leader":       testIsolatedLeader,
		"one way cut":           testOneWayCut,
		"client link":           testClientLink,
		"slow peer link":        testSlowPeerLink,
	} {
		whole := t.Run(name, func(t *testing.T) {
			fault(t, c)
			c.Heal()
			require.NoError(t, c.WaitReady(grpctest.Within(t, soon)))
		})
		require.True(t, whole, "the next case would start from a broken cluster")
	}
}

func testKillAndRestart(t *testing.T, c *lab.Cluster) {
	m := leader(t, c)
	put(t, dial(t, c, m.Endpoint()), "k", "before")
	endpoint, pid := m.Endpoint(), m.PID()
	require.NoError(t, m.Kill())
	require.NoError(t, m.Kill(), "killed already")
	assert.False(t, m.Alive())
	requireNoProcess(t, pid)
	assert.ErrorIs(t, m.Freeze(), lab.ErrNotRunning)
	assert.ErrorIs(t, m.Continue(), lab.ErrNotRunning)

	next := leader(t, c)
	require.NotEqual(t, m, next, "a dead leader")
	put(t, dial(t, c, next.Endpoint()), "k", "meanwhile")
	require.NoError(t, m.Restart(grpctest.Within(t, soon)))
	assert.Equal(t, endpoint, m.Endpoint())
	assert.ErrorIs(t, m.Restart(grpctest.Within(t, soon)), lab.ErrRunning)
	requireValue(t, dial(t, c, endpoint), "k", "meanwhile")
}

func testTerminateAndRestart(t *testing.T, c *lab.Cluster) {
	m := leader(t, c)
	put(t, dial(t, c), "k", "kept")
	require.NoError(t, m.Freeze())
	assert.ErrorIs(t, m.Terminate(grpctest.Within(t, soon)), lab.ErrFrozen)
	require.NoError(t, m.Continue())
	require.NoError(t, m.Terminate(grpctest.Within(t, soon)))
	require.NoError(t, m.Terminate(grpctest.Within(t, soon)), "terminated already")
	assert.False(t, m.Alive())
	require.NoError(t, m.Restart(grpctest.Within(t, soon)))
	requireValue(t, dial(t, c, m.Endpoint()), "k", "kept")
}

func testFreezeAndContinue(t *testing.T, c *lab.Cluster) {
	m := follower(t, c)
	client := dial(t, c, m.Endpoint())
	put(t, client, "k", "v")
	require.NoError(t, m.Freeze())
	assert.True(t, m.Alive())
	assert.True(t, m.Frozen())

	finished := make(chan error, 1)
	go func() {
		_, err := client.Get(grpctest.Within(t, soon), "k", clientv3.WithSerializable())
		finished <- err
	}()
	select {
	case err := <-finished:
		t.Fatalf("a frozen member answered: %v", err)
	case <-time.After(hang):
	}
	require.NoError(t, m.Continue())
	require.NoError(t, m.Continue(), "it runs already")
	assert.False(t, m.Frozen())
	require.NoError(t, <-finished)
}

func testFrozenLeader(t *testing.T, c *lab.Cluster) {
	m := leader(t, c)
	require.NoError(t, m.Freeze())
	next := leader(t, c)
	assert.NotEqual(t, m, next)
	require.NoError(t, c.WaitReady(grpctest.Within(t, soon)), "frozen members do not count")
	require.NoError(t, m.Continue())
}

func testMoveLeader(t *testing.T, c *lab.Cluster) {
	for _, m := range c.Members() {
		require.Eventually(t, func() bool { // an election may follow
			return c.MoveLeader(grpctest.Within(t, soon), m) == nil && leader(t, c) == m
		}, soon, 10*time.Millisecond)
		require.NoError(t, c.MoveLeader(grpctest.Within(t, soon), m), "to where it is")
	}
}

func testLostMajority(t *testing.T, c *lab.Cluster) {
	members := c.Members()
	put(t, dial(t, c), "k", "kept")
	require.NoError(t, members[0].Kill())
	require.NoError(t, members[1].Kill())
	requireLeaderless(t, members[2]) // if it led, it takes itself for the leader for an election timeout
	_, err := c.Leader(grpctest.Within(t, hang))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no leader")
	require.ErrorContains(t, err, "m3")

	restarted := make(chan error, 2)
	for _, m := range members[:2] {
		go func() { restarted <- m.Restart(grpctest.Within(t, soon)) }()
	}
	require.NoError(t, <-restarted)
	require.NoError(t, <-restarted)
	requireValue(t, dial(t, c), "k", "kept")
}

// While a member is dead, a process that asks for its port by number gets it.
func testLostPort(t *testing.T, c *lab.Cluster) {
	m := c.Members()[0]
	put(t, dial(t, c), "k", "kept")
	require.NoError(t, m.Kill())
	listener, err := net.Listen("tcp", hostPort(t, m.DirectEndpoint()))
	require.NoError(t, err)
	require.ErrorContains(t, m.Restart(grpctest.Within(t, soon)), "ended while starting")
	require.NoError(t, listener.Close())
	require.NoError(t, m.Restart(grpctest.Within(t, soon)))
	requireValue(t, dial(t, c, m.Endpoint()), "k", "kept")
}

func testIsolatedFollower(t *testing.T, c *lab.Cluster) {
	leading, m := leader(t, c), follower(t, c)
	client := dial(t, c, leading.Endpoint())
	put(t, client, "k", "before")
	require.Eventually(t, func() bool { return local(t, m, "k") == "before" }, soon, 10*time.Millisecond)
	c.Isolate(m)
	requireLeaderless(t, m)
	put(t, client, "k", "without it")
	assert.Equal(t, "before", local(t, m, "k"))

	c.Heal()
	require.Eventually(t, func() bool { return local(t, m, "k") == "without it" }, soon, 10*time.Millisecond)
}

func testIsolatedLeader(t *testing.T, c *lab.Cluster) {
	m := leader(t, c)
	c.Isolate(m)
	next := awaitOtherLeader(t, c, m)
	requireLeaderless(t, m)
	put(t, dial(t, c, next.Endpoint()), "k", "new term")

	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	_, err := dial(t, c, m.Endpoint()).Get(ctx, "k")
	assert.ErrorIs(t, err, context.DeadlineExceeded, "a linearizable read of the minority")
	c.Heal()
	requireValue(t, dial(t, c, m.Endpoint()), "k", "new term")
}

func requireLeaderless(t *testing.T, m *lab.Member) {
	t.Helper()
	require.Eventually(t, func() bool {
		status, err := m.Status(grpctest.Within(t, soon))
		return err == nil && status.Leader == 0
	}, soon, 10*time.Millisecond)
}

// A leader that receives from all and reaches none is replaced. What it sends travels
// forward on the connections that it dials, and in reverse on those that its peers dial.
func testOneWayCut(t *testing.T, c *lab.Cluster) {
	var m *lab.Member
	require.Eventually(t, func() bool { // another one may be elected before the cut
		c.Heal()
		m = leader(t, c)
		for _, other := range c.Others(m) {
			c.PeerLink(m, other).Blackhole(link.Forward)
			c.PeerLink(other, m).Blackhole(link.Reverse)
		}
		status, err := m.Status(grpctest.Within(t, soon))
		return err == nil && status.Leader == m.ID()
	}, soon, 10*time.Millisecond)
	next := awaitOtherLeader(t, c, m)
	put(t, dial(t, c, next.Endpoint()), "k", "after the cut")
	c.Heal()
	requireValue(t, dial(t, c, m.Endpoint()), "k", "after the cut")
}

func testClientLink(t *testing.T, c *lab.Cluster) {
	m := c.Members()[0]
	client := dial(t, c, m.Endpoint())
	put(t, client, "k", "v")
	c.ClientLink(m).Blackhole(link.Both)
	_, err := client.Get(grpctest.Within(t, hang), "k")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = m.Status(grpctest.Within(t, soon))
	require.NoError(t, err, "the lab's own way in is not the clients'")
	c.Heal()
	requireValue(t, client, "k", "v")
}

func testSlowPeerLink(t *testing.T, c *lab.Cluster) {
	const latency = 100 * time.Millisecond // a fifth of the election timeout
	leading := leader(t, c)
	client := dial(t, c, leading.Endpoint())
	put(t, client, "k", "fast")
	for _, other := range c.Others(leading) {
		c.PeerLink(leading, other).Delay(link.Both, latency)
		c.PeerLink(other, leading).Delay(link.Both, latency)
	}
	began := time.Now()
	put(t, client, "k", "slow")
	assert.GreaterOrEqual(t, time.Since(began), 2*latency, "there and back")
}

func TestBecomeLearner(t *testing.T) {
	c := start(t, lab.Config{Args: []string{"--strict-reconfig-check=false"}})
	m := leader(t, c)
	id := m.ID()
	put(t, dial(t, c), "k", "v")
	require.NoError(t, m.BecomeLearner(grpctest.Within(t, soon)))
	for range 2 { // it stays one
		require.NoError(t, c.WaitReady(grpctest.Within(t, soon)))
		status, err := m.Status(grpctest.Within(t, soon))
		require.NoError(t, err)
		assert.True(t, status.IsLearner)
		assert.NotEqual(t, id, m.ID())
		require.NoError(t, m.Kill())
		require.NoError(t, m.Restart(grpctest.Within(t, soon)))
	}
	require.Eventually(t, func() bool { return local(t, m, "k") == "v" }, soon, 10*time.Millisecond)
}
