//go:build experiment

package failover_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/retry"
)

// A client that does nothing but watch notices that the member of its watch is frozen, out of reach, or cut off from its
// peers, and goes on at another one while the fault is there.
func TestWatchOnlyClientFollowsAFault(t *testing.T) {
	for name, inject := range map[string]func(*lab.Cluster, *lab.Member) error{
		"frozen":     func(_ *lab.Cluster, m *lab.Member) error { return m.Stop() },
		"blackholed": func(c *lab.Cluster, m *lab.Member) error { c.ClientLink(m).Blackhole(link.Both); return nil },
		"isolated":   func(c *lab.Cluster, m *lab.Member) error { c.Isolate(m); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			member, delivered := watchOnFollower(t, c)
			writer := alone(t, others(c, member), nil)
			writeFor(t, writer, 2*time.Second) // by which the client learns how often events come
			require.NoError(t, inject(c, member))
			last, acknowledged := writeFor(t, writer, time.Second)
			require.Eventually(t, func() bool {
				for {
					select {
					case revision := <-delivered:
						if revision >= last {
							return true
						}
					default:
						return false
					}
				}
			}, patience, pollInterval, "the event of the last write")
			t.Logf("the last event was %v late", time.Since(acknowledged).Round(time.Millisecond))
			require.NoError(t, member.Continue())
		})
	}
}

// alone returns a client that shares nothing with the others of this process.
func alone(t *testing.T, members []*lab.Member, w *recorder) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{DisableHealthSharing: true}
	if w != nil {
		cfg.Observer = w
	}
	for _, m := range members {
		cfg.Endpoints = append(cfg.Endpoints, m.Endpoint())
	}
	return labtest.Client(t, cfg)
}

// watchOnFollower returns a follower, and what a watch delivers that it serves, of a client that has nothing else.
func watchOnFollower(t *testing.T, c *lab.Cluster) (*lab.Member, <-chan int64) {
	t.Helper()
	for {
		w := newRecorder(t, c)
		client := alone(t, c.Members(), w)
		delivered := openWatch(t.Context(), t, client, "watched/")
		picked := w.picked(pb.Watch_Watch_FullMethodName)
		for _, m := range others(c, leaderOf(t, c)) {
			if picked[m.Name()] > 0 {
				return m, delivered
			}
		}
		require.NoError(t, client.Close())
	}
}

// writeFor writes 50 times a second, and returns the revision of the last write that was acknowledged, and when.
func writeFor(t *testing.T, writer *clientv3.Client, length time.Duration) (last int64, at time.Time) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(length); time.Now().Before(end) || last == 0; <-ticker.C {
		resp, err := writer.Put(within(t, patience), "watched/key", "")
		if err != nil { // a machine that is too slow for its cluster loses the leader, and the put with it
			require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err), "%v", err)
			continue
		}
		last, at = resp.Header.Revision, time.Now()
	}
	return last, at
}
