//go:build experiment

package failover_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/lab/link"
)

// A large answer on a narrow link delays every other one that is behind it. That is no
// silence: given up and begun again, it would never come to its end.
func TestALargeReadOverANarrowLinkCompletes(t *testing.T) {
	c := start(t)
	w := connect(t, c, "")
	ctx := within(t, 2*patience)
	const size = 1 << 20
	for _, key := range []string{"large/1", "large/2"} {
		_, err := w.client.Put(ctx, key, strings.Repeat("v", size))
		require.NoError(t, err)
	}
	watch := w.client.Watch(ctx, "small", clientv3.WithCreatedNotify())
	created := <-watch
	require.NoError(t, created.Err())
	for range 300 { // from which the client learns how long answers take
		_, err := w.client.Get(ctx, "small")
		require.NoError(t, err)
	}
	before := accepted(c)
	w.reset()
	for _, m := range c.Members() {
		c.ClientLink(m).Throttle(link.Reverse, size/3)
	}
	began := time.Now()
	resp, err := w.client.Get(ctx, "large/", clientv3.WithPrefix())
	require.NoError(t, err)
	t.Logf("%d keys after %v; states %v", len(resp.Kvs), time.Since(began), w.visits())
	assert.Len(t, resp.Kvs, 2)
	assert.Equal(t, before, accepted(c), "no connection was made anew")
	assert.Zero(t, w.visits()[health.Dead])
	assert.Zero(t, w.visits()[health.Lagging])
}
