package channel

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// A member with thousands of clients takes long for each handshake.
func TestSlowHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := startCluster(t, 1)
		const handshake = 15 * time.Second
		cluster.OnDial(func(ctx context.Context, _ *fakeetcd.Member) error {
			select {
			case <-time.After(handshake):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		c := newTestChannel(t, Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions()})
		start := time.Now()
		require.NoError(t, readK(t, c))
		assert.Less(t, time.Since(start), handshake+time.Second)
		assert.Equal(t, 1, cluster.Member(0).Dials())
	})
}
