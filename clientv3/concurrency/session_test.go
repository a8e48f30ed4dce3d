package concurrency_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/quorate/quorate/clientv3"
	. "github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
)

// requireEnded waits for the end of the session, and returns its error.
func requireEnded(t *testing.T, s *Session) *SessionEndedError {
	t.Helper()
	<-s.Done()
	require.Equal(t, context.Canceled, s.Ctx().Err())
	var ended *SessionEndedError
	require.ErrorAs(t, s.Err(), &ended)
	require.Equal(t, s.Lease(), ended.Lease)
	require.Equal(t, context.Cause(s.Ctx()), ended.Cause)
	return ended
}

func TestSessionErr(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(t *testing.T, f fake, s *Session, cancel context.CancelFunc)
		want error
	}{
		"orphaned": {
			func(_ *testing.T, _ fake, s *Session, _ context.CancelFunc) { s.Orphan() }, ErrSessionOrphaned,
		},
		"closed": {
			func(t *testing.T, _ fake, s *Session, _ context.CancelFunc) { require.NoError(t, s.Close()) }, ErrSessionClosed,
		},
		"closed when it was orphaned": {
			func(t *testing.T, _ fake, s *Session, _ context.CancelFunc) {
				s.Orphan()
				require.NoError(t, s.Close())
			}, ErrSessionOrphaned,
		},
		"expired": {
			func(t *testing.T, f fake, s *Session, _ context.CancelFunc) {
				require.NoError(t, f.ExpireLease(int64(s.Lease())))
			}, rpctypes.ErrLeaseNotFound,
		},
		"unanswered": {
			func(_ *testing.T, f fake, _ *Session, _ context.CancelFunc) { f.stop() }, clientv3.ErrLeaseUnanswered,
		},
		"its context": {
			func(_ *testing.T, _ fake, _ *Session, cancel context.CancelFunc) { cancel() }, context.Canceled,
		},
		"its client's Lease": {
			func(t *testing.T, f fake, _ *Session, _ context.CancelFunc) {
				require.NoError(t, f.client.Lease.Close())
			},
			clientv3.ErrKeepAliveHalted{Reason: context.Canceled},
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFake(t, 1, func(t *testing.T, f fake) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := f.session(t, WithContext(ctx), WithTTL(30))
				time.Sleep(25 * time.Second)
				require.NoError(t, s.Err())
				require.NoError(t, s.Ctx().Err())
				require.Empty(t, s.Done())
				lived := time.Now()

				tt.end(t, f, s, cancel)
				ended := requireEnded(t, s)
				require.ErrorIs(t, s.Err(), tt.want)
				require.WithinRange(t, ended.LastRenewal, lived.Add(-10*time.Second), lived, "a third of the TTL")
				require.ErrorContains(t, ended, ended.LastRenewal.Format(time.RFC3339Nano))
				require.ErrorContains(t, ended, tt.want.Error())
			})
		})
	}
}

func TestSessionOfALeaseThatDoesNotExist(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t, WithLease(-1))
		ended := requireEnded(t, s)
		require.Equal(t, rpctypes.ErrLeaseNotFound, ended.Cause)
		require.Zero(t, ended.LastRenewal)
		require.ErrorContains(t, ended, "never renewed")
	})
}

func TestSessionOptions(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		core, logs := observer.New(zap.WarnLevel)
		clientv3.WithZapLogger(zap.New(core))(f.client)
		s := f.session(t)
		require.Same(t, f.client, s.Client())
		f.session(t, WithTTL(90), WithTTL(0), WithTTL(-1))
		require.Equal(t, 2, logs.Len())
		shared := f.session(t, WithLease(s.Lease()))
		require.Equal(t, s.Lease(), shared.Lease())
		var ttls []int64
		for _, call := range f.Calls("LeaseGrant") {
			ttls = append(ttls, call.Request().(*pb.LeaseGrantRequest).TTL)
		}
		require.Equal(t, []int64{60, 90}, ttls)
	})
}

func TestNewSessionFails(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		_, err := NewSession(f.client, WithContext(clienttest.Ended(t)))
		require.Equal(t, context.Canceled, err)

		_, err = NewSession(f.client, WithTTL(clientv3.MaxLeaseTTL+1))
		require.Equal(t, rpctypes.ErrLeaseTTLTooLarge, err)

		require.NoError(t, f.client.Lease.Close())
		_, err = NewSession(f.client)
		require.ErrorAs(t, err, &clientv3.ErrKeepAliveHalted{})
		require.Equal(t, 1, f.Count("LeaseRevoke"), "the granted lease is revoked")
	})
}

// noKeepAlive is a replaced Lease that ends its keepalive without a reason.
type noKeepAlive struct {
	clientv3.Lease
	ch chan *clientv3.LeaseKeepAliveResponse
}

func (l noKeepAlive) KeepAlive(context.Context, clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	return l.ch, nil
}

func TestSessionOverALeaseWithoutReasons(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		lease := f.client.Lease
		f.client.Lease = noKeepAlive{Lease: lease}
		_, err := NewSession(f.client)
		require.ErrorContains(t, err, "no longer kept alive")

		ch := make(chan *clientv3.LeaseKeepAliveResponse)
		f.client.Lease = noKeepAlive{Lease: lease, ch: ch}
		s := f.session(t)
		close(ch)
		require.ErrorContains(t, requireEnded(t, s), "no longer kept alive")
	})
}

// Close revokes the lease, in the TTL at most, and while the session's context lasts.
func TestCloseRevokesTheLease(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		m := lock(t, s, "lock")
		require.NoError(t, s.Close())
		require.Nil(t, f.Get(m.Key()))
		require.Equal(t, rpctypes.ErrLeaseNotFound, s.Close())

		ctx, cancel := context.WithCancel(t.Context())
		ended := f.session(t, WithContext(ctx))
		cancel()
		before := f.Count("LeaseRevoke")
		require.Equal(t, context.Canceled, ended.Close())
		require.Equal(t, before, f.Count("LeaseRevoke"))

		s = f.session(t, WithTTL(7))
		f.On("LeaseRevoke", func(call *fakeetcd.Call) { neverAnswer(call) })
		start := time.Now()
		require.Equal(t, context.DeadlineExceeded, s.Close())
		require.Equal(t, 7*time.Second, time.Since(start))
	})
}

func TestOrphanLeavesTheLease(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		m := lock(t, s, "lock")
		s.Orphan()
		synctest.Wait()
		require.True(t, owns(t, f.client, m))
		renewals := func() (n int) {
			for _, r := range f.Calls("LeaseKeepAlive") {
				n += len(r.Requests)
			}
			return n
		}
		before := renewals()
		time.Sleep(time.Hour)
		require.Equal(t, before, renewals())
		require.Zero(t, f.Count("LeaseRevoke"))
	})
}

func TestRecreate(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := f.session(t, WithTTL(30), WithContext(ctx))
		require.NoError(t, f.ExpireLease(int64(s.Lease())))
		<-s.Done()

		again := clienttest.Must(s.Recreate(grpctest.Within(t, time.Second)))
		require.NotEqual(t, s.Lease(), again.Lease())
		grant := f.Calls("LeaseGrant")[1].Request().(*pb.LeaseGrantRequest)
		require.Equal(t, int64(30), grant.TTL)
		time.Sleep(time.Minute)
		require.NoError(t, again.Err(), "the context of Recreate is for the call only")
		require.Error(t, s.Err())

		m := lock(t, again, "lock")
		require.Equal(t, keyOf(again, "lock"), m.Key())

		cancel()
		<-again.Done()
		_, err := again.Recreate(t.Context())
		require.Equal(t, context.Canceled, err)
	})
}

func TestRecreateOfAGivenLease(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		given := f.session(t)
		s := f.session(t, WithLease(given.Lease()))
		again := clienttest.Must(s.Recreate(t.Context()))
		defer again.Orphan()
		require.NotEqual(t, given.Lease(), again.Lease())
		require.NoError(t, s.Err(), "an open session is unchanged")

		f.stop()
		_, err := s.Recreate(grpctest.Within(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestSessionDeadline(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		start := time.Now()
		s := f.session(t, WithTTL(30))
		synctest.Wait()
		require.Equal(t, start.Add(30*time.Second), s.Deadline())
		time.Sleep(time.Hour)
		require.WithinRange(t, s.Deadline(), time.Now().Add(20*time.Second), time.Now().Add(30*time.Second))
		f.stop()
		last := s.Deadline()
		<-s.Done()
		require.Equal(t, last, s.Deadline())
		require.Equal(t, last, time.Now())
	})
}
