//go:build experiment

package failover_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
)

// ttl is that of leases, in seconds: no longer than faults are held, so that a lease which
// is not renewed meanwhile ends. longTTL outlives what takes several members away.
const ttl, longTTL = 4, 60

// lease is one that is kept alive, with a key attached to it.
type lease struct {
	client  *clientv3.Client
	id      clientv3.LeaseID
	key     string
	monitor clientv3.LeaseMonitor
	cancel  context.CancelFunc
	ended   chan struct{} // closed when it is not kept alive any more
}

func keepLease(t *testing.T, client *clientv3.Client, ttl int64) *lease {
	t.Helper()
	granted, err := client.Grant(within(t, patience), ttl)
	require.NoError(t, err)
	l := &lease{client: client, id: granted.ID, key: fmt.Sprintf("lease/%x", granted.ID), ended: make(chan struct{})}
	_, err = client.Put(within(t, patience), l.key, "", clientv3.WithLease(l.id))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	l.cancel = cancel
	renewals, err := client.KeepAlive(clientv3.WithLeaseMonitor(ctx, &l.monitor), l.id)
	require.NoError(t, err)
	require.NotNil(t, <-renewals)
	go func() {
		defer close(l.ended)
		for range renewals { // until it is closed
			continue
		}
	}()
	return l
}

// finish checks that the lease was kept all the time, and still lives.
func (l *lease) finish(t *testing.T) {
	t.Helper()
	select {
	case <-l.ended:
		assert.Fail(t, "the lease is not kept alive any more", "%v", l.monitor.Err())
	default:
		assert.True(t, time.Now().Before(l.monitor.Deadline()), "the lease is known to live")
	}
	resp, err := l.client.Get(within(t, patience), l.key)
	if assert.NoError(t, err) {
		assert.Len(t, resp.Kvs, 1, "the lease has expired, and its key with it")
	}
	l.cancel()
	<-l.ended
	_, err = l.client.Revoke(within(t, patience), l.id)
	assert.NoError(t, err)
}
