//go:build experiment

package fault_test

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// look lists what faults have done to the members of a cluster, in a few words each.
func look(c *lab.Cluster, leader *lab.Member) []string {
	var out []string
	say := func(m *lab.Member, what string) {
		role := "follower "
		if m == leader {
			role = "leader "
		}
		out = append(out, role+what)
	}
	for _, m := range c.Members() {
		if !m.Alive() {
			say(m, "dead")
		}
		if m.Frozen() {
			say(m, "stopped")
		}
		if c.ClientLink(m).Condition(link.Forward).Blackholed && c.ClientLink(m).Condition(link.Reverse).Blackholed {
			say(m, "unreachable")
		}
		if c.ClientLink(m).Condition(link.Reverse).Delay > 0 {
			say(m, "late to clients")
		}
		cut, late, others := 0, 0, c.Others(m)
		for _, other := range others {
			to, from := c.PeerLink(m, other), c.PeerLink(other, m)
			if to.Condition(link.Both).Blackholed && from.Condition(link.Both).Blackholed {
				cut++
			}
			if to.Condition(link.Forward).Delay > 0 && from.Condition(link.Reverse).Delay > 0 {
				late++
			}
		}
		if cut == len(others) {
			say(m, "isolated")
		}
		if c.ClientLink(m).Condition(link.Both).Loss > 0 {
			say(m, "loses")
		}
		if late == len(others) {
			say(m, "late to members")
		}
	}
	return out
}

// slowElections are members that elect another leader only if theirs is silent for longer than a busy machine lets it be.
var slowElections = lab.Config{Election: 2 * time.Second}

func TestInjectAndHeal(t *testing.T) {
	ctx := grpctest.Within(t, 5*time.Minute)
	c := labtest.Start(t, slowElections)

	effects := map[string][]string{
		"kill":             {"follower dead"},
		"stop":             {"follower stopped"},
		"blackhole":        {"follower unreachable"},
		"partition":        {"follower isolated"},
		"slow":             {"follower late to clients", "follower late to members"},
		"leader-kill":      {"leader dead"},
		"leader-stop":      {"leader stopped"},
		"leader-blackhole": {"leader unreachable"},
		"leader-partition": {"leader isolated"},
		"loss":             {"follower loses"},
	}
	for _, unseen := range []string{"rolling-restart", "defrag", "leader-move", "nat", "nat-one", "flap", "pause", "transfer"} {
		effects[unseen] = nil
	}
	// further says what else there is to see of a fault.
	further := map[string]func(t *testing.T, leader *lab.Member, before []int){
		"rolling-restart": func(t *testing.T, _ *lab.Member, before []int) {
			for i, pid := range pids(c) {
				assert.NotEqual(t, before[i], pid, "every member was restarted")
			}
		},
		"leader-move": func(t *testing.T, leader *lab.Member, _ []int) {
			now, err := c.Leader(ctx)
			require.NoError(t, err)
			assert.NotEqual(t, leader.Name(), now.Name())
		},
		"majority-lost": func(t *testing.T, _ *lab.Member, before []int) {
			assert.Len(t, look(c, nil), 1, "one is dead")
			same := 0
			for i, pid := range pids(c) {
				if c.Members()[i].Alive() && pid == before[i] {
					same++
				}
			}
			assert.Equal(t, 1, same, "one survived, and the other one that lives was restarted")
		},
		"two-frozen": func(t *testing.T, _ *lab.Member, _ []int) { assert.Len(t, look(c, nil), 2) },
	}
	connected := connect(t, c.Endpoints(), nil)
	for _, f := range fault.All() {
		if f.Site != fault.Direct || f.Name == "second-frozen" {
			continue // they have tests of their own
		}
		t.Run(f.Name, func(t *testing.T) {
			leader, err := c.Leader(ctx)
			require.NoError(t, err)
			before := pids(c)
			gets(t, connected) // a client is connected
			var notes []string
			s := fault.Scene{
				Cluster: c, Rand: rand.New(rand.NewPCG(1, 1)), Note: func(s string) { notes = append(notes, s) }, Hold: time.Second,
				Join: func(*tls.Config) (client.Connection, error) { return connect(t, c.Endpoints(), nil), nil },
			}
			began := time.Now()
			require.NoError(t, f.Inject(ctx, s))
			if f.Name == "defrag" {
				assert.GreaterOrEqual(t, time.Since(began), s.Hold, "it goes on for as long as it is held")
			}
			want, known := effects[f.Name]
			check := further[f.Name]
			require.True(t, known || check != nil)
			if known {
				assert.Equal(t, want, look(c, leader))
			}
			if check != nil {
				check(t, leader, before)
			}
			assert.NotEmpty(t, notes)
			require.NoError(t, fault.Heal(ctx, s))
			assert.Empty(t, look(c, leader))
			assert.NoError(t, c.WaitReady(ctx))
		})
	}
}

// connect returns a client that is open until the end of the test.
func connect(t *testing.T, endpoints []string, security *tls.Config) client.Connection {
	t.Helper()
	conn, err := quorate.Connect(client.Target{Endpoints: endpoints, TLS: security})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// get reads a key.
func get(ctx context.Context, c client.Connection) error {
	_, err := c.KV.Do(ctx, [model.Keys]string{"key"}, model.Request{Kind: model.Get, Then: []model.Act{{Verb: model.Read}}})
	return err
}

// gets reads through a client until it is answered.
func gets(t *testing.T, c client.Connection) {
	t.Helper()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return get(ctx, c) == nil
	}, time.Minute, 10*time.Millisecond)
}

// TestSites injects the faults that need a cluster or a way to it of their own. A client that
// connects while the fault is held is served, and so is the one from before when it is healed.
func TestSites(t *testing.T) {
	for _, name := range []string{"vip", "move", "expired"} {
		t.Run(name, func(t *testing.T) {
			ctx := grpctest.Within(t, 5*time.Minute)
			faults, err := fault.Parse([]string{name})
			require.NoError(t, err)
			site, err := fault.SiteOf(faults)
			require.NoError(t, err)
			c := labtest.Start(t, site.Config(lab.Config{}))
			front, err := site.Open(c)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, front.Close()) })
			before := connect(t, front.Endpoints, c.ClientTLS())
			gets(t, before)
			refused := 0
			s := fault.Scene{
				Cluster: c, Rand: rand.New(rand.NewPCG(1, 1)), Note: func(string) {}, Hold: time.Millisecond, Front: front,
				Join: func(security *tls.Config) (client.Connection, error) {
					expired := connect(t, front.Endpoints, security)
					calling, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
					defer cancel()
					if get(calling, expired) != nil {
						refused++
					}
					return expired, nil
				},
			}
			require.NoError(t, faults[0].Inject(ctx, s))
			gets(t, connect(t, front.Endpoints, c.ClientTLS()))
			if name == "expired" {
				assert.Equal(t, 20, refused)
			}
			require.NoError(t, fault.Heal(ctx, s))
			gets(t, before)
		})
	}
}

// TestForSoaks checks the faults of soaks, which have several clients of one process.
func TestForSoaks(t *testing.T) {
	ctx := grpctest.Within(t, time.Minute)
	c := labtest.Start(t, lab.Config{})
	connected := connect(t, c.Endpoints(), nil)
	all := fault.ForSoaks()
	assert.Subset(t, fault.Names(all), []string{"nat", "nat-one", "flap"})
	assert.NotContains(t, fault.Names(all), "vip")
	for _, f := range all {
		if f.Name != "nat" && f.Name != "nat-one" {
			continue
		}
		gets(t, connected)
		s := fault.Scene{Cluster: c, Rand: rand.New(rand.NewPCG(1, 1)), Note: func(string) {}, Hold: time.Millisecond}
		require.NoError(t, f.Inject(ctx, s))
		require.NoError(t, fault.Heal(ctx, s))
	}
}

func pids(c *lab.Cluster) (out []int) {
	for _, m := range c.Members() {
		out = append(out, m.PID())
	}
	return out
}

func TestFollowersAreChosenBySeed(t *testing.T) {
	ctx := grpctest.Within(t, time.Minute)
	c := labtest.Start(t, slowElections)
	choices := func(seed uint64) (out []string) {
		rng := rand.New(rand.NewPCG(seed, 0))
		for range 8 {
			f, err := fault.Parse([]string{"blackhole"})
			require.NoError(t, err)
			s := fault.Scene{Cluster: c, Rand: rng, Note: func(s string) { out = append(out, s) }}
			require.NoError(t, f[0].Inject(ctx, s))
			require.NoError(t, fault.Heal(ctx, s))
		}
		return out
	}
	first := choices(3)
	assert.Equal(t, first, choices(3))
	distinct := map[string]bool{}
	for _, c := range first {
		distinct[c] = true
	}
	assert.Len(t, distinct, 1+2, "what the fault is, and both followers have their turn")
}

func TestInjectAndHealEndWithTheirContext(t *testing.T) {
	ctx := grpctest.Within(t, time.Minute)
	c := labtest.Start(t, lab.Config{})
	ended, end := context.WithCancel(ctx)
	var once sync.Once
	s := fault.Scene{Cluster: c, Rand: rand.New(rand.NewPCG(1, 1)), Note: func(string) { once.Do(end) }}
	rolling, err := fault.Parse([]string{"rolling-restart"})
	require.NoError(t, err)
	err = rolling[0].Inject(ended, s)
	require.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, "inject rolling-restart")
	require.NoError(t, fault.Heal(ctx, s), "half a rolling restart can be healed")
	assert.Empty(t, look(c, nil))
}

// TestStormLeavesTheClusterWell ends a storm when its first fault is injected.
func TestStormLeavesTheClusterWell(t *testing.T) {
	ctx := grpctest.Within(t, time.Minute)
	c := labtest.Start(t, lab.Config{})
	for seed := range uint64(3) {
		running, end := context.WithCancel(ctx)
		s := fault.Scene{Cluster: c, Rand: rand.New(rand.NewPCG(seed, 1)), Note: func(string) { end() }}
		var mu sync.Mutex
		counted := map[string]bool{}
		require.NoError(t, fault.Storm(running, s, rand.New(rand.NewPCG(seed, 2)), func(what string) {
			mu.Lock()
			defer mu.Unlock()
			counted[what] = true
		}))
		delete(counted, "connections cut")
		assert.Len(t, counted, 1, "a fault that was injected")
		assert.Empty(t, look(c, nil))
	}
}
