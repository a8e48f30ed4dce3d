//go:build experiment

package failover_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/retry"
)

// watchOnlyDelay is what an event may be late. It is 1.2 s on a machine without other work; on a busy one it may be more by
// what bareCalls of the slowest bare calls take.
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
			write := func() int64 {
				for {
					resp, err := writer.Put(within(t, patience), "watched/key", "")
					if err == nil {
						return resp.Header.Revision
					}
					// A machine that is too slow for its cluster loses the leader, and the put with it.
					require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err), "%v", err)
				}
			}
			writeFor(2*time.Second, write)
			time.Sleep(time.Second)
			writeFor(3*time.Second, write)
			beside := beginBare(c, "bare/")
			t.Cleanup(beside.end)
			fault.inject(t, c, member)
			acknowledged := writeFor(3*time.Second, write)
			fault.heal(t, c, member)
			late := w.lateness(t, acknowledged)
			beside.end()
			busy := bareCalls * beside.slowest(member)
			t.Logf("the latest event was %v late; allowed for a busy machine %v", late.Round(time.Millisecond), busy)
			assert.Less(t, late, watchOnlyDelay+busy)
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
		obs := newRecorder(t, c)
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

// acknowledgement is that of a write.
type acknowledgement struct {
	at       time.Time
	revision int64
}

// writeFor writes 50 times a second.
func writeFor(length time.Duration, put func() (revision int64)) (acknowledged []acknowledgement) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(length); time.Now().Before(end); <-ticker.C {
		revision := put()
		acknowledged = append(acknowledged, acknowledgement{time.Now(), revision})
	}
	return acknowledged
}

// lateness returns the most that an event came after its write was acknowledged. It waits until
// the last one has come.
func (w *watch) lateness(t *testing.T, acknowledged []acknowledgement) (latest time.Duration) {
	t.Helper()
	require.NotEmpty(t, acknowledged)
	delivered := map[int64]time.Time{}
	require.Eventually(t, func() bool {
		for _, e := range w.delivered() {
			delivered[e.revision] = e.at
		}
		return !delivered[acknowledged[len(acknowledged)-1].revision].IsZero()
	}, patience, pollInterval)
	for _, a := range acknowledged {
		require.Contains(t, delivered, a.revision)
		latest = max(latest, delivered[a.revision].Sub(a.at))
	}
	return latest
}

// memberOfWatch returns the member that a client's only watch went to.
func (w *recorder) memberOfWatch(t *testing.T, c *lab.Cluster) *lab.Member {
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
