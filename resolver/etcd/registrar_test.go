package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/resolver/etcd"
)

const (
	key   = "svc/10.0.0.1:1"
	value = `{"Op":0,"Addr":"10.0.0.1:1","Metadata":null}`
)

// registered is a registration with its events.
type registered struct {
	*etcd.Registrar
	events chan etcd.Event
}

// registration returns one whose events go to the channel.
func registration() (etcd.Registration, chan etcd.Event) {
	events := make(chan etcd.Event, 1000)
	return etcd.Registration{Service: "svc", Address: "10.0.0.1:1", Notify: func(e etcd.Event) { events <- e }}, events
}

// registerWatched registers the endpoint with the key, and returns when its key is watched as well.
func registerWatched(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) registered {
	t.Helper()
	reg, events := registration()
	watches := cluster.Count("Watch")
	r, err := etcd.Register(grpctest.Within(t, testTimeout), client, reg)
	require.NoError(t, err)
	e := registered{r, events}
	require.False(t, e.expect(t, etcd.Registered).Again)
	require.NoError(t, cluster.Wait(grpctest.Within(t, testTimeout), "Watch", watches+1))
	return e
}

// expect returns the next event, which must be of the state.
func (r registered) expect(t *testing.T, state etcd.State) etcd.Event {
	t.Helper()
	select {
	case e := <-r.events:
		require.Equal(t, state, e.State, "%v", e.Err)
		return e
	case <-time.After(testTimeout):
		require.Fail(t, "no event", "waiting for %v", state)
		return etcd.Event{}
	}
}

// timingOut is a cluster whose leader lives but commits nothing: it renews leases, and times writes out.
func timingOut(c *fakeetcd.Call) {
	time.Sleep(7 * time.Second)
	c.Answer(nil, rpctypes.ErrGRPCTimeout)
}

// A deadline is observed, even if it is later than the bound without one.
func TestRegisterIsBounded(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		50 * time.Millisecond: 50 * time.Millisecond, 2 * time.Minute: 2 * time.Minute, 0: 30 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			cluster, client, _ := start(t)
			cluster.On("Put", timingOut)
			ctx := t.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			began := time.Now()
			_, err := etcd.Register(ctx, client, etcd.Registration{Service: "svc", Address: "a:1"})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, `registering "svc/a:1"`)
			require.Equal(t, want, time.Since(began))
			leases, err := client.Leases(grpctest.Within(t, testTimeout))
			require.NoError(t, err)
			require.Empty(t, leases.Leases)
		})
	}
}

func TestLeaseExpires(t *testing.T) {
	cluster, client, _ := start(t)
	r := registerWatched(t, cluster, client)
	first := r.State()
	refused := cluster.On("LeaseGrant", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCNoSpace) })
	require.NoError(t, cluster.ExpireLease(int64(first.Lease)))
	require.Equal(t, rpctypes.ErrLeaseNotFound, r.expect(t, etcd.Lost).Err)
	require.Equal(t, rpctypes.ErrNoSpace, r.expect(t, etcd.Lost).Err)
	require.Nil(t, cluster.Get(key))
	refused.Remove()
	again := r.expect(t, etcd.Registered)
	require.True(t, again.Again)
	require.NotEqual(t, first.Lease, again.Lease)
	require.JSONEq(t, value, string(cluster.Get(key).Value))
	require.EqualValues(t, again.Lease, cluster.Get(key).Lease)
}

// The watch of the key is of no use: it needs what was compacted. The key is read again.
func TestKeyIsDeletedAndCompacted(t *testing.T) {
	cluster, client, other := start(t)
	r := registerWatched(t, cluster, client)
	cluster.Member(0).Stop()
	_, err := other.Delete(grpctest.Within(t, testTimeout), key)
	require.NoError(t, err)
	_, err = cluster.Put("other", "")
	require.NoError(t, err)
	require.NoError(t, cluster.Compact(cluster.Revision()))
	cluster.Member(0).Start()
	require.Eventually(t, func() bool { return cluster.Get(key) != nil }, testTimeout, poll)
	require.EqualValues(t, r.State().Lease, cluster.Get(key).Lease)
}

func TestUpdates(t *testing.T) {
	cluster, client, _ := start(t)
	r := registerWatched(t, cluster, client)
	require.NoError(t, r.SetWeight(grpctest.Within(t, testTimeout), 5))
	require.JSONEq(t, `{"Op":0,"Addr":"10.0.0.1:1","Metadata":{"weight":5}}`, string(cluster.Get(key).Value))
	require.ErrorContains(t, r.SetMetadata(grpctest.Within(t, testTimeout), "text"), "Metadata is a string")
	require.ErrorContains(t, r.SetWeight(grpctest.Within(t, testTimeout), 1<<30), "Weight is 1073741824")
	require.NoError(t, r.SetMetadata(grpctest.Within(t, testTimeout), map[string]string{"zone": "a"}))
	require.JSONEq(t, `{"Op":0,"Addr":"10.0.0.1:1","Metadata":{"weight":5,"zone":"a"}}`, string(cluster.Get(key).Value))
	require.NoError(t, r.SetWeight(grpctest.Within(t, testTimeout), 0))
	require.JSONEq(t, `{"Op":0,"Addr":"10.0.0.1:1","Metadata":{"zone":"a"}}`, string(cluster.Get(key).Value))
	require.EqualValues(t, r.State().Lease, cluster.Get(key).Lease)
	require.Empty(t, r.events)

	require.NoError(t, r.Withdraw(grpctest.Within(t, testTimeout)))
	require.ErrorIs(t, r.SetWeight(grpctest.Within(t, testTimeout), 1), etcd.ErrWithdrawn)
}

// An update that cannot be written is written when it can be.
func TestUpdateIsRefused(t *testing.T) {
	cluster, client, _ := start(t)
	r := registerWatched(t, cluster, client)
	refused := cluster.On("Txn", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCNoSpace) })
	ctx, cancel := context.WithCancel(grpctest.Within(t, testTimeout))
	go func() {
		assert.NoError(t, cluster.Wait(t.Context(), "Txn", 2))
		cancel()
	}()
	err := r.SetWeight(ctx, 5)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)
	require.ErrorContains(t, err, "not updated yet: it is held")
	require.JSONEq(t, value, string(cluster.Get(key).Value))
	require.Equal(t, rpctypes.ErrNoSpace, r.expect(t, etcd.Registered).Err)
	refused.Remove()
	require.NoError(t, r.expect(t, etcd.Registered).Err)
	require.JSONEq(t, `{"Op":0,"Addr":"10.0.0.1:1","Metadata":{"weight":5}}`, string(cluster.Get(key).Value))
}

// A write is still on its way when the endpoint is withdrawn: it must not bring it back.
func TestWriteMeetsWithdrawal(t *testing.T) {
	cluster, client, other := start(t)
	r := registerWatched(t, cluster, client)
	held, executed := make(chan struct{}), make(chan error, 1)
	late, release := context.WithCancel(t.Context())
	defer release()
	cluster.Once("Txn", func(c *fakeetcd.Call) {
		close(held)
		<-late.Done()
		_, err := c.Execute()
		executed <- err
	})
	_, err := other.Delete(grpctest.Within(t, testTimeout), key)
	require.NoError(t, err)
	<-held
	updated := make(chan error, 1)
	go func() { updated <- r.SetWeight(t.Context(), 5) }()
	require.NoError(t, r.Withdraw(grpctest.Within(t, testTimeout)))
	require.ErrorIs(t, <-updated, etcd.ErrWithdrawn)
	release()
	require.ErrorContains(t, <-executed, "requested lease not found")
	require.Nil(t, cluster.Get(key))
}

// Another process takes the key between two requests of an update.
func TestUpdateMeetsAnotherRegistration(t *testing.T) {
	cluster, client, other := start(t)
	r := registerWatched(t, cluster, client)
	var newer registered
	cluster.Once("Txn", func(c *fakeetcd.Call) {
		newer = registerWatched(t, cluster, other)
		_, _ = c.Execute()
	})
	require.ErrorIs(t, r.SetWeight(grpctest.Within(t, testTimeout), 5), etcd.ErrSuperseded)
	r.expect(t, etcd.Superseded)
	require.JSONEq(t, value, string(cluster.Get(key).Value))
	require.EqualValues(t, newer.State().Lease, cluster.Get(key).Lease)
}

// A superseded registration waits for its turn, whatever becomes of its own lease.
func TestSupersededLeaseExpires(t *testing.T) {
	cluster, client, other := start(t)
	r := registerWatched(t, cluster, client)
	newer := registerWatched(t, cluster, other)
	superseded := r.expect(t, etcd.Superseded)
	require.NoError(t, cluster.ExpireLease(int64(superseded.Lease)))
	require.ErrorIs(t, r.SetWeight(grpctest.Within(t, testTimeout), 2), etcd.ErrSuperseded)
	require.EqualValues(t, newer.State().Lease, cluster.Get(key).Lease)
	require.NoError(t, newer.Withdraw(grpctest.Within(t, testTimeout)))
	require.Eventually(t, func() bool { return r.State().State == etcd.Registered }, testTimeout, poll)
	require.JSONEq(t, `{"Op":0,"Addr":"10.0.0.1:1","Metadata":{"weight":2}}`, string(cluster.Get(key).Value))
}

// Permission to write alone is enough, but the key cannot be watched.
func TestKeyCannotBeRead(t *testing.T) {
	cluster, client, _ := start(t)
	refused := cluster.On("Range", func(c *fakeetcd.Call) {
		if string(c.Request.(*pb.RangeRequest).Key) == key {
			c.Answer(nil, rpctypes.ErrGRPCPermissionDenied)
			return
		}
		_, _ = c.Execute()
	})
	reg, events := registration()
	registrar, err := etcd.Register(grpctest.Within(t, testTimeout), client, reg)
	require.NoError(t, err)
	r := registered{registrar, events}
	require.NoError(t, r.expect(t, etcd.Registered).Err)
	require.Equal(t, rpctypes.ErrPermissionDenied, r.expect(t, etcd.Registered).Err)
	refused.Remove()
	e := r.expect(t, etcd.Registered)
	require.NoError(t, e.Err)
	require.False(t, e.Again)
}

func TestRegistrationEndsWithItsClient(t *testing.T) {
	cluster, client, _ := start(t)
	r := registerWatched(t, cluster, client)
	require.NoError(t, client.Close())
	require.ErrorContains(t, r.expect(t, etcd.Lost).Err, "client was closed")
	require.ErrorContains(t, r.SetWeight(grpctest.Within(t, testTimeout), 2), "client was closed")
	require.Error(t, r.Withdraw(grpctest.Within(t, testTimeout)))
}

// ctx has ended before the withdrawal. The registration ends all the same, and reports it.
func TestWithdrawalAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := start(t)
		r := registerWatched(t, cluster, client)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := r.Withdraw(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "which expires in 10 s at most")
		require.ErrorIs(t, r.expect(t, etcd.Withdrawn).Err, context.Canceled)
		require.Equal(t, etcd.Withdrawn, r.State().State)
		require.NotNil(t, cluster.Get(key))
		for range 2 {
			require.NoError(t, r.Withdraw(grpctest.Within(t, testTimeout)))
			require.Nil(t, cluster.Get(key))
		}
		require.NoError(t, r.expect(t, etcd.Withdrawn).Err)
		require.Equal(t, 1, cluster.Count("LeaseRevoke"))
	})
}

// A withdrawal waits for another one only until its own ctx ends.
func TestConcurrentWithdrawals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := start(t)
		r := registerWatched(t, cluster, client)
		first, release := make(chan error, 1), make(chan struct{})
		defer close(release)
		cluster.On("LeaseRevoke", func(*fakeetcd.Call) { <-release })
		withdrawing := grpctest.Within(t, 5*time.Second)
		go func() { first <- r.Withdraw(withdrawing) }()
		synctest.Wait()
		began := time.Now()
		require.ErrorIs(t, r.Withdraw(grpctest.Within(t, time.Second)), context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(began), 2*time.Second)
		require.Empty(t, first)
		require.ErrorIs(t, <-first, context.DeadlineExceeded)
	})
}

// A Notify that blocks delays Withdraw only briefly.
func TestWithdrawalDuringNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, other := start(t)
		called, release := make(chan struct{}), make(chan struct{})
		reg := etcd.Registration{Service: "svc", Address: "10.0.0.1:1", Notify: func(e etcd.Event) {
			if e.State == etcd.Lost {
				close(called)
				<-release
			}
		}}
		r, err := etcd.Register(grpctest.Within(t, testTimeout), client, reg)
		require.NoError(t, err)
		_, err = other.Delete(grpctest.Within(t, testTimeout), key)
		require.NoError(t, err)
		<-called
		began := time.Now()
		require.ErrorIs(t, r.Withdraw(grpctest.Within(t, time.Second)), context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(began))
		close(release)
		require.NoError(t, r.Withdraw(grpctest.Within(t, testTimeout)))
		require.Equal(t, etcd.Withdrawn, r.State().State)
		require.Nil(t, cluster.Get(key))
	})
}

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
		"etcd is unreachable, for a third of the time": {
			timeout: 9 * time.Second, busy: time.Second, outage: true,
			want: []string{"removed at 3s", "graceful stop at 4s", "stopped at 5s"}, err: `etcd: withdrawing "svc/a:1": `,
		},
		"etcd is unreachable, for five seconds": {
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
