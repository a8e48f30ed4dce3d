package etcd_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/resolver/etcd"
)

// The first withdrawal cannot reach etcd, the second one can.
func TestWithdrawalIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := start(t)
		r := enrol(t, cluster, client)
		cluster.Member(0).Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := r.Withdraw(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "which expires in 10 s at most")
		require.Error(t, r.expect(t, etcd.Withdrawn).Err)
		require.NotNil(t, cluster.Get(key))
		cluster.Member(0).Start()
		require.NoError(t, r.Withdraw(within(t)))
		require.NoError(t, r.expect(t, etcd.Withdrawn).Err)
		require.Nil(t, cluster.Get(key))
		require.NoError(t, r.Withdraw(within(t)))
		require.Equal(t, 1, cluster.Count("LeaseRevoke"))
	})
}

// ctx has ended before the withdrawal. The registration ends all the same, and reports it.
func TestWithdrawalAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := start(t)
		r := enrol(t, cluster, client)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := r.Withdraw(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "which expires in 10 s at most")
		require.ErrorIs(t, r.expect(t, etcd.Withdrawn).Err, context.Canceled)
		require.Equal(t, etcd.Withdrawn, r.State().State)
		require.NotNil(t, cluster.Get(key))
		require.NoError(t, r.Withdraw(within(t)))
		require.Nil(t, cluster.Get(key))
	})
}

// A withdrawal waits for another one only until its own ctx ends.
func TestConcurrentWithdrawals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := start(t)
		r := enrol(t, cluster, client)
		cluster.On("LeaseRevoke", func(c *fakeetcd.Call) { <-c.Context().Done() })
		patient, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		first := make(chan error, 1)
		go func() { first <- r.Withdraw(patient) }()
		synctest.Wait()
		began := time.Now()
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Withdraw(hasty), context.DeadlineExceeded)
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
		r, err := etcd.Register(within(t), client, reg)
		require.NoError(t, err)
		_, err = other.Delete(within(t), key)
		require.NoError(t, err)
		<-called
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, r.Withdraw(ctx), context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(began))
		close(release)
		require.NoError(t, r.Withdraw(within(t)))
		require.Equal(t, etcd.Withdrawn, r.State().State)
		require.Nil(t, cluster.Get(key))
	})
}
