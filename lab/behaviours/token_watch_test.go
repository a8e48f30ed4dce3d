package behaviours_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// TestStreamsOutliveTokens lets tokens run out under a watch and a keepalive. A server checks the token of a stream when a
// watch is created: the official client fails there, and goes on failing.
func TestStreamsOutliveTokens(t *testing.T) {
	t.Parallel()
	for name, args := range tokenKinds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := clientv3.Config{Endpoints: []string{startWithAuth(t, args)}, Username: "root", Password: "secret"}
			c, writer := labtest.Client(t, cfg), labtest.Client(t, cfg)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			lease, err := c.Grant(ctx, 60)
			require.NoError(t, err)
			renewals, err := c.KeepAlive(ctx, lease.ID)
			require.NoError(t, err)
			require.NotNil(t, <-renewals)
			old := c.Watch(ctx, "k")
			putAndExpect(ctx, t, writer, "1", old)

			time.Sleep(tokenLife + 2*time.Second)
			putAndExpect(ctx, t, writer, "2", old)
			time.Sleep(tokenLife + 2*time.Second) // the watch is the first to find out
			young := c.Watch(ctx, "k")
			past := c.Watch(ctx, "k", clientv3.WithRev(1))
			putAndExpect(ctx, t, writer, "3", old, young)
			expect(ctx, t, past, "1", "2", "3")

			time.Sleep(tokenLife + 2*time.Second)
			_, err = c.KeepAliveOnce(ctx, lease.ID)
			require.NoError(t, err)
		})
	}
}

// TestLastResponseWaits reads the last response of watches long after it came. The official client drops it after a quarter
// of a second.
func TestLastResponseWaits(t *testing.T) {
	t.Parallel()
	cluster := labtest.Start(t, lab.Config{Members: 1})
	c := labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	put, err := c.Put(ctx, "k", "1")
	require.NoError(t, err)
	_, err = c.Put(ctx, "k", "2")
	require.NoError(t, err)
	_, err = c.Compact(ctx, put.Header.Revision+1)
	require.NoError(t, err)

	refused, compacted := c.Watch(ctx, "k", clientv3.WithRev(-1)), c.Watch(ctx, "k", clientv3.WithRev(put.Header.Revision))
	abandoned, leave := context.WithCancel(ctx)
	left := c.Watch(abandoned, "k", clientv3.WithRev(-1))
	time.Sleep(time.Second)
	for name, watch := range map[string]clientv3.WatchChan{"refused": refused, "compacted": compacted} {
		resp, open := <-watch
		require.True(t, open, name)
		assert.True(t, resp.Canceled, name)
		assert.Equal(t, rpctypes.ErrCompacted, resp.Err(), name)
		_, open = <-watch
		assert.False(t, open, name)
	}
	leave()
	for range left { // a caller who leaves ends the wait, with a response or without
	}
}

// putAndExpect puts a value that every watch has to deliver next.
func putAndExpect(ctx context.Context, t *testing.T, writer *clientv3.Client, value string, watches ...clientv3.WatchChan) {
	t.Helper()
	_, err := writer.Put(ctx, "k", value)
	require.NoError(t, err)
	for _, watch := range watches {
		expect(ctx, t, watch, value)
	}
}

// expect reads the next values from a watch.
func expect(ctx context.Context, t *testing.T, watch clientv3.WatchChan, want ...string) {
	t.Helper()
	var got []string
	for len(got) < len(want) {
		select {
		case resp, open := <-watch:
			require.True(t, open, "the watch ended after %q of %q", got, want)
			require.NoError(t, resp.Err())
			for _, event := range resp.Events {
				got = append(got, string(event.Kv.Value))
			}
		case <-ctx.Done():
			require.FailNow(t, "the watch does not deliver", "%q of %q", got, want)
		}
	}
	require.Equal(t, want, got)
}
