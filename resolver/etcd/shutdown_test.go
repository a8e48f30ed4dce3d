package etcd_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/resolver/etcd"
)

// diary records the events of a shutdown, with the time since its start.
type diary struct {
	start   time.Time
	mu      sync.Mutex
	entries []string
	times   []time.Duration
}

func (d *diary) note(entry string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, entry)
	d.times = append(d.times, time.Since(d.start))
}

// server has calls of a given duration.
type server struct {
	*diary
	busy    time.Duration
	stopped chan struct{}
}

func (s *server) GracefulStop() {
	s.note("graceful stop")
	select {
	case <-time.After(s.busy):
	case <-s.stopped:
	}
	s.note("stopped")
}

func (s *server) Stop() {
	s.note("stop")
	close(s.stopped)
}

// shutDown registers an endpoint and shuts its server down, in virtual time.
func shutDown(t *testing.T, timeout, busy time.Duration, reg etcd.Registration, before func(*fakeetcd.Cluster)) (*diary, error) {
	t.Helper()
	cluster, err := fakeetcd.Start(1)
	require.NoError(t, err)
	defer cluster.Close()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()

	d := new(diary)
	reg.Service, reg.Address = "svc", "a:1"
	reg.Notify = func(e etcd.Event) { d.note(e.State.String()) }
	r, err := etcd.Register(t.Context(), client, reg)
	require.NoError(t, err)
	synctest.Wait()
	before(cluster)
	d.start, d.entries, d.times = time.Now(), nil, nil
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return d, r.Shutdown(ctx, &server{d, busy, make(chan struct{})})
}

func nothing(*fakeetcd.Cluster) {}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := shutDown(t, time.Minute, 3*time.Second, etcd.Registration{}, nothing)
		require.NoError(t, err)
		require.Equal(t, []string{"removed", "graceful stop", "stopped"}, d.entries)
		require.Equal(t, []time.Duration{0, time.Second, 4 * time.Second}, d.times)
	})
}

func TestShutdownWaitsUntilDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := etcd.Registration{DrainPause: 2 * time.Second, Drained: func(ctx context.Context) error {
			time.Sleep(5 * time.Second)
			require.NoError(t, ctx.Err())
			return errors.New("one is left")
		}}
		d, err := shutDown(t, time.Minute, 0, reg, nothing)
		require.ErrorContains(t, err, `"svc/a:1": Drained: one is left`)
		require.Equal(t, []string{"removed", "graceful stop", "stopped"}, d.entries)
		require.Equal(t, []time.Duration{0, 7 * time.Second, 7 * time.Second}, d.times)
	})
}

func TestShutdownWithoutServer(t *testing.T) {
	cluster, client, _ := start(t)
	r := enrol(t, cluster, client)
	require.ErrorContains(t, r.Shutdown(within(t), nil), "has no server; call Withdraw")
	require.NotNil(t, cluster.Get(key))
}

func TestShutdownWithoutPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := shutDown(t, time.Minute, 0, etcd.Registration{DrainPause: -1}, nothing)
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, 0, 0}, d.times)
	})
}

// Calls take longer than ctx allows.
func TestShutdownEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := shutDown(t, 10*time.Second, time.Hour, etcd.Registration{}, nothing)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "stopped before it had finished its calls")
		require.Equal(t, []string{"removed", "graceful stop", "stop", "stopped"}, d.entries)
		require.Equal(t, 10*time.Second, d.times[3])
	})
}

// The pause alone takes longer than ctx allows.
func TestShutdownEndsDuringThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drained := func(context.Context) error { panic("there is no time left for it") }
		d, err := shutDown(t, time.Second, time.Hour, etcd.Registration{DrainPause: time.Hour, Drained: drained}, nothing)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, d.times[len(d.times)-1])
		require.Equal(t, "stopped", d.entries[len(d.entries)-1])
	})
}

// During an outage of etcd the withdrawal gets a part of the time, the server the rest.
func TestShutdownInAnOutage(t *testing.T) {
	for timeout, withdrawal := range map[time.Duration]time.Duration{
		9 * time.Second: 3 * time.Second,
		time.Hour:       5 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			d, err := shutDown(t, timeout, time.Second, etcd.Registration{}, func(c *fakeetcd.Cluster) { c.Member(0).Stop() })
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, `withdrawing "svc/a:1"`)
			require.NotContains(t, err.Error(), "stopped before")
			require.Equal(t, []string{"removed", "graceful stop", "stopped"}, d.entries)
			require.Equal(t, withdrawal, d.times[0])
			require.Equal(t, withdrawal+2*time.Second, d.times[2])
		})
	}
}
