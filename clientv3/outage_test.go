package clientv3_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// outage is how long all members are stopped.
const outage = 12 * time.Second

// A member that freezes within the length of an outage after it costs reads 0.7 s, not 20 ms: no read is hedged then.
func TestMemberFreezesAfterAnOutage(t *testing.T) {
	for after, longest := range map[time.Duration]time.Duration{2 * time.Second: 700 * time.Millisecond, 11 * time.Second: 30 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 3)
			const often = 5 * time.Millisecond
			slowest := func(length, pause time.Duration) (longest time.Duration) {
				for began := time.Now(); time.Since(began) < length; time.Sleep(pause) {
					sent := time.Now()
					_, err := c.Get(t.Context(), "k")
					require.NoError(t, err)
					longest = max(longest, time.Since(sent))
				}
				return longest
			}
			slowest(10*time.Second, 25*time.Millisecond)
			for _, m := range cluster.Members() {
				m.Stop()
			}
			time.AfterFunc(outage, func() {
				for _, m := range cluster.Members() {
					m.Start()
				}
			})
			require.Greater(t, slowest(time.Second, often), outage, "the outage is over")
			slowest(after, often)
			cluster.Member(2).Freeze()
			assert.LessOrEqual(t, slowest(time.Second, often), longest)
		})
	}
}

// A client without calls learns by a probe that an endpoint serves again: all try to connect within 4.2 s then.
func TestWatchAloneResumesAfterAnOutage(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		watch := c.Watch(t.Context(), "k", WithCreatedNotify())
		_, ok := next(t, watch)
		require.True(t, ok)
		for _, m := range cluster.Members() {
			m.Stop()
		}
		time.Sleep(outage)
		for _, m := range cluster.Members() {
			m.Start()
		}
		back := time.Now()
		rev := clienttest.Put(t, cluster, "k", "v")
		requireRevs(t, watch, rev, rev)
		assert.LessOrEqual(t, time.Since(back), 6*time.Second)
	})
}
