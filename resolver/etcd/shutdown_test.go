package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/resolver/etcd"
)

// eventLog records the events of a shutdown, with the time since its start.
type eventLog struct {
	start   time.Time
	mu      sync.Mutex
	entries []string
}

func (d *eventLog) note(entry string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, fmt.Sprint(entry, " at ", time.Since(d.start)))
}

// server has calls of a given duration.
type server struct {
	*eventLog
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
func shutDown(t *testing.T, timeout, busy time.Duration, reg etcd.Registration, outage bool) (*eventLog, error) {
	t.Helper()
	cluster, client, _ := start(t)
	d := new(eventLog)
	reg.Service, reg.Address = "svc", "a:1"
	reg.Notify = func(e etcd.Event) { d.note(e.State.String()) }
	r, err := etcd.Register(t.Context(), client, reg)
	require.NoError(t, err)
	synctest.Wait()
	if outage {
		cluster.Member(0).Stop()
	}
	d.start, d.entries = time.Now(), nil
	return d, r.Shutdown(grpctest.Within(t, timeout), &server{d, busy, make(chan struct{})})
}

func TestShutdown(t *testing.T) {
	drained := func(ctx context.Context) error {
		time.Sleep(5 * time.Second)
		return errors.Join(ctx.Err(), errors.New("one is left"))
	}
	const stoppedEarly = "etcd: the server was stopped before it had finished its calls: context deadline exceeded"
	for name, c := range map[string]struct {
		timeout, busy time.Duration
		reg           etcd.Registration
		outage        bool // of etcd
		want          []string
		err           string // "" if there is none
	}{
		"calls end": {
			timeout: time.Minute, busy: 3 * time.Second,
			want: []string{"removed at 0s", "graceful stop at 1s", "stopped at 4s"},
		},
		"it waits until the server is drained": {
			timeout: time.Minute, reg: etcd.Registration{DrainPause: 2 * time.Second, Drained: drained},
			want: []string{"removed at 0s", "graceful stop at 7s", "stopped at 7s"}, err: `etcd: "svc/a:1": Drained: one is left`,
		},
		"without a pause": {
			timeout: time.Minute, reg: etcd.Registration{DrainPause: -1},
			want: []string{"removed at 0s", "graceful stop at 0s", "stopped at 0s"},
		},
		"calls take longer than ctx allows": {
			timeout: 10 * time.Second, busy: time.Hour,
			want: []string{"removed at 0s", "graceful stop at 1s", "stop at 10s", "stopped at 10s"}, err: stoppedEarly,
		},
		// The withdrawal gets a part of the time, the server the rest.
		"etcd is away, for a third of the time": {
			timeout: 9 * time.Second, busy: time.Second, outage: true,
			want: []string{"removed at 3s", "graceful stop at 4s", "stopped at 5s"}, err: `etcd: withdrawing "svc/a:1": `,
		},
		"etcd is away, for five seconds": {
			timeout: time.Hour, busy: time.Second, outage: true,
			want: []string{"removed at 5s", "graceful stop at 6s", "stopped at 7s"}, err: `etcd: withdrawing "svc/a:1": `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, err := shutDown(t, c.timeout, c.busy, c.reg, c.outage)
				require.Equal(t, c.want, d.entries)
				if c.err == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, c.err)
				require.NotContains(t, err.Error(), "\n", "another error")
				require.Equal(t, c.err == stoppedEarly || c.outage, errors.Is(err, context.DeadlineExceeded))
			})
		})
	}
}

func TestShutdownWithoutServer(t *testing.T) {
	cluster, client, _ := start(t)
	r := registerWatched(t, cluster, client)
	require.ErrorContains(t, r.Shutdown(grpctest.Within(t, testTimeout), nil), "has no server; call Withdraw")
	require.NotNil(t, cluster.Get(key))
}

// The pause alone takes longer than ctx allows.
func TestShutdownEndsDuringThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drained := func(context.Context) error { panic("there is no time left for it") }
		d, err := shutDown(t, time.Second, time.Hour, etcd.Registration{DrainPause: time.Hour, Drained: drained}, false)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "stopped at 1s", d.entries[len(d.entries)-1])
	})
}
