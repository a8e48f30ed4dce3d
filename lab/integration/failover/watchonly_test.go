package failover_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
)

// watchOnlyDelay is what an event may be late. It is 1.2 s on a machine without other work.
const watchOnlyDelay = 4 * time.Second

// A client that does nothing but watch notices as soon as one that calls that the member of
// its watch is frozen, out of reach, or cut off from its peers.
func TestWatchOnlyClientFollowsAFault(t *testing.T) {
	for _, fault := range []struct {
		name   string
		inject func(t *testing.T, c *lab.Cluster, m *lab.Member)
		heal   func(t *testing.T, c *lab.Cluster, m *lab.Member)
	}{
		{
			"frozen",
			func(t *testing.T, _ *lab.Cluster, m *lab.Member) { require.NoError(t, m.Stop()) },
			func(t *testing.T, _ *lab.Cluster, m *lab.Member) { require.NoError(t, m.Continue()) },
		},
		{
			"blackholed",
			func(_ *testing.T, c *lab.Cluster, m *lab.Member) { c.ClientLink(m).Blackhole(link.Both) },
			func(_ *testing.T, c *lab.Cluster, _ *lab.Member) { c.Heal() },
		},
		{
			"isolated",
			func(_ *testing.T, c *lab.Cluster, m *lab.Member) { c.Isolate(m) },
			func(_ *testing.T, c *lab.Cluster, _ *lab.Member) { c.Heal() },
		},
	} {
		t.Run(fault.name, func(t *testing.T) {
			c := start(t)
			member, w := watchOnFollower(t, c)
			writer := alone(t, others(c, member))
			write := func(n int) {
				ctx := within(t, patience)
				_, err := writer.Put(ctx, "watched/key", fmt.Sprint(n))
				require.NoError(t, err)
			}
			writeFor(2*time.Second, write)
			time.Sleep(time.Second)
			writeFor(3*time.Second, write)
			fault.inject(t, c, member)
			acknowledged := writeFor(3*time.Second, write)
			fault.heal(t, c, member)
			t.Logf("the latest event was %v late", w.lateness(t, acknowledged).Round(time.Millisecond))
			assert.Less(t, w.lateness(t, acknowledged), watchOnlyDelay)
		})
	}
}

// alone returns a client that shares nothing with the others of this process.
func alone(t *testing.T, members []*lab.Member, opts ...func(*clientv3.Config)) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{DisableHealthSharing: true, Logger: zap.NewNop()}
	for _, m := range members {
		cfg.Endpoints = append(cfg.Endpoints, m.Endpoint())
	}
	for _, opt := range opts {
		opt(&cfg)
	}
	client, err := clientv3.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// watchOnFollower returns a watch, of a client that has nothing else, and the follower that
// serves it.
func watchOnFollower(t *testing.T, c *lab.Cluster) (*lab.Member, *watch) {
	t.Helper()
	for {
		obs := newWitness(t, c)
		client := alone(t, c.Members(), func(cfg *clientv3.Config) { cfg.Observer = obs })
		w := openWatch(t, client, "watched/")
		member := obs.memberOfWatch(t, c)
		if member != leaderOf(t, c) {
			return member, w
		}
		w.cancel()
		require.NoError(t, client.Close())
	}
}

// writeFor writes 50 times a second, and returns when each write was acknowledged.
func writeFor(length time.Duration, write func(n int)) (acknowledged []time.Time) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(length); time.Now().Before(end); <-ticker.C {
		write(len(acknowledged))
		acknowledged = append(acknowledged, time.Now())
	}
	return acknowledged
}

// lateness returns how long the latest of the last events came after its write was
// acknowledged.
func (w *watch) lateness(t *testing.T, acknowledged []time.Time) (latest time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	all := w.delivered()
	for total := 0; ctx.Err() == nil; time.Sleep(pollInterval) {
		if all = w.delivered(); len(all) == total && total > len(acknowledged) {
			break
		}
		total = len(all)
	}
	last := all[len(all)-len(acknowledged):]
	for i, at := range acknowledged {
		latest = max(latest, last[i].at.Sub(at))
	}
	return latest
}

// memberOfWatch returns the member that a client's only watch went to.
func (w *witness) memberOfWatch(t *testing.T, c *lab.Cluster) *lab.Member {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range c.Members() {
		if w.picks[pick{m.Name(), pb.Watch_Watch_FullMethodName}] > 0 {
			return m
		}
	}
	require.Fail(t, "no member was picked for the watch")
	return nil
}
