package concurrency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	. "github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// keep keeps the key "agents/ann", and returns the channel of its events.
func (f fake) keep(ctx context.Context, t *testing.T, opts KeyOptions) (*KeptKey, chan KeyEvent) {
	t.Helper()
	events := make(chan KeyEvent, 100)
	opts.Notify = func(e KeyEvent) { events <- e }
	return clienttest.Must(KeepKey(ctx, f.client, "agents/ann", "10.0.0.7", opts)), events
}

// requireEvent returns the next event.
func requireEvent(t *testing.T, events <-chan KeyEvent, want KeyState) KeyEvent {
	t.Helper()
	e := clienttest.Next(t, events)
	require.Equal(t, want, e.State, "%v", e.Err)
	return e
}

func requireNoLease(t *testing.T, f fake) {
	t.Helper()
	require.Empty(t, clienttest.Must(f.client.Leases(t.Context())).Leases)
}

// The lease is lost, and the key deleted: the key is put again with the latest value, and is removed when the context ends.
func TestKeptKeyIsPutAgain(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		ctx, cancel := context.WithCancel(t.Context())
		k, events := f.keep(ctx, t, KeyOptions{})
		first := requireEvent(t, events, KeyHeld)
		require.False(t, first.Again)
		time.Sleep(time.Hour)
		require.EqualValues(t, first.Lease, f.Get("agents/ann").Lease, "the lease is renewed")
		require.NoError(t, k.SetValue(t.Context(), "10.0.0.8"))

		require.NoError(t, f.ExpireLease(int64(first.Lease)))
		require.Equal(t, rpctypes.ErrLeaseNotFound, requireEvent(t, events, KeyLost).Err)
		again := requireEvent(t, events, KeyHeld)
		require.True(t, again.Again)
		require.NotEqual(t, first.Lease, again.Lease)
		require.Equal(t, "10.0.0.8", string(f.Get("agents/ann").Value))
		require.EqualValues(t, again.Lease, f.Get("agents/ann").Lease)

		f.remove(t, "agents/ann")
		require.Equal(t, ErrKeyDeleted, requireEvent(t, events, KeyLost).Err)
		require.Equal(t, again, requireEvent(t, events, KeyHeld))

		full := func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCNoSpace) }
		f.Once("Txn", full)
		require.NoError(t, k.SetValue(t.Context(), "10.0.0.9"))
		require.Equal(t, KeyEvent{State: KeyHeld, Again: true, Lease: again.Lease, Err: rpctypes.ErrNoSpace}, requireEvent(t, events, KeyHeld))
		require.Equal(t, again, requireEvent(t, events, KeyHeld))
		f.Once("Txn", full)
		f.remove(t, "agents/ann")
		require.Equal(t, rpctypes.ErrNoSpace, requireEvent(t, events, KeyLost).Err)
		require.Equal(t, again, requireEvent(t, events, KeyHeld))

		cancel()
		require.NoError(t, requireEvent(t, events, KeyRemoved).Err)
		require.Nil(t, f.Get("agents/ann"))
		requireNoLease(t, f)
		require.Equal(t, 1, f.Count("LeaseRevoke"), "no request of the lost lease may still arrive")
		require.NoError(t, k.Remove(t.Context()))
		require.ErrorIs(t, k.SetValue(t.Context(), "late"), ErrKeyRemoved)
		synctest.Wait()
		require.Empty(t, events)
	})
}

// A key that others have put is left alone, until they delete it.
func TestKeptKeyOfAnotherClient(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		f.put(t, "agents/ann", "by hand")
		reports := f.On("Watch", reportProgress)
		k, events := f.keep(t.Context(), t, KeyOptions{})
		requireEvent(t, events, KeySuperseded)
		require.ErrorIs(t, k.SetValue(t.Context(), "10.0.0.8"), ErrKeySuperseded)
		time.Sleep(time.Second)
		before := f.Count("Range")
		time.Sleep(time.Minute)
		require.Equal(t, before, f.Count("Range"), "progress is no change of the key")
		require.Equal(t, "by hand", string(f.Get("agents/ann").Value))
		reports.Remove()
		f.remove(t, "agents/ann")
		require.True(t, requireEvent(t, events, KeyHeld).Again)
		require.Equal(t, "10.0.0.8", string(f.Get("agents/ann").Value))

		f.put(t, "agents/ann", "by hand again")
		lost := requireEvent(t, events, KeySuperseded)
		require.NoError(t, f.ExpireLease(int64(lost.Lease)))
		requireEvent(t, events, KeyLost)
		requireEvent(t, events, KeySuperseded)
		require.NoError(t, k.Remove(t.Context()))
		require.Equal(t, 1, f.Count("LeaseRevoke"))
		require.Equal(t, "by hand again", string(f.Get("agents/ann").Value), "it is not this client's")
		requireNoLease(t, f)
	})
}

func TestKeptKeyOverwrites(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		lease := clienttest.Must(f.client.Grant(t.Context(), 60))
		clienttest.Must(f.client.Put(t.Context(), "agents/ann", "an earlier process", clientv3.WithLease(lease.ID)))
		k, events := f.keep(t.Context(), t, KeyOptions{Overwrite: true})
		requireEvent(t, events, KeyHeld)
		require.NoError(t, f.ExpireLease(int64(lease.ID)))
		require.Equal(t, "10.0.0.7", string(f.Get("agents/ann").Value))
		require.NoError(t, k.Remove(t.Context()))
	})
}

// The answer to the first write is lost, with and without Overwrite.
func TestKeptKeyWhoseFirstWriteIsUnsettled(t *testing.T) {
	for method, overwrite := range map[string]bool{"Put": true, "Txn": false} {
		t.Run(method, func(t *testing.T) {
			withFake(t, 3, func(t *testing.T, f fake) {
				f.Once(method, clienttest.LoseAnswer)
				k, events := f.keep(t.Context(), t, KeyOptions{Overwrite: overwrite})
				held := requireEvent(t, events, KeyHeld)
				require.EqualValues(t, held.Lease, f.Get("agents/ann").Lease)
				require.Len(t, clienttest.Must(f.client.Leases(t.Context())).Leases, 1, "that of the first write is revoked")
				time.Sleep(time.Hour)
				require.Empty(t, events)
				require.NoError(t, k.Remove(t.Context()))
				require.Nil(t, f.Get("agents/ann"))
			})
		})
	}
}

// The lease of an unsettled first write cannot be revoked, and its request arrives late.
func TestKeptKeyOfAnUnsettledFirstLease(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		f.Once("Txn", clienttest.LoseAnswer)
		f.Once("LeaseRevoke", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		k, events := f.keep(t.Context(), t, KeyOptions{})
		held := requireEvent(t, events, KeyHeld)
		for _, lease := range clienttest.Must(f.client.Leases(t.Context())).Leases {
			clienttest.Must(f.client.Put(t.Context(), "agents/ann", "late", clientv3.WithLease(lease.ID)))
		}
		synctest.Wait()
		require.Empty(t, events)
		require.EqualValues(t, held.Lease, f.Get("agents/ann").Lease)
		require.NoError(t, k.Remove(t.Context()))
		requireNoLease(t, f)
	})
}

// A request of a lost lease arrives late: this client or another has put the key meanwhile, and it was deleted.
func TestKeptKeyOfALateRequest(t *testing.T) {
	for _, meanwhile := range []KeyState{KeyHeld, KeySuperseded} {
		t.Run(meanwhile.String(), func(t *testing.T) {
			withFake(t, 3, func(t *testing.T, f fake) {
				k, events := f.keep(t.Context(), t, KeyOptions{})
				requireEvent(t, events, KeyHeld)
				late, executed := make(chan struct{}), make(chan struct{})
				f.Once("Txn", func(c *fakeetcd.Call) {
					<-late
					clienttest.Must(c.Execute())
					close(executed)
				})
				f.remove(t, "agents/ann")
				synctest.Wait()
				f.stop()
				for lost := error(nil); !errors.Is(lost, clientv3.ErrLeaseUnanswered); {
					lost = requireEvent(t, events, KeyLost).Err
				}
				if meanwhile == KeySuperseded {
					f.put(t, "agents/ann", "by hand")
				}
				f.start()
				requireEvent(t, events, meanwhile)

				f.Once("Txn", func(*fakeetcd.Call) {
					close(late)
					<-executed
				})
				f.remove(t, "agents/ann")
				if meanwhile == KeyHeld {
					requireEvent(t, events, KeyLost)
				}
				held := requireEvent(t, events, KeyHeld)
				require.EqualValues(t, held.Lease, f.Get("agents/ann").Lease)
				require.NoError(t, k.Remove(t.Context()))
				require.Nil(t, f.Get("agents/ann"))
				requireNoLease(t, f)
			})
		})
	}
}

// The removal at the end of the context is bounded, and can be repeated.
func TestKeptKeyCannotBeRemoved(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		ctx, cancel := context.WithCancel(t.Context())
		k, events := f.keep(ctx, t, KeyOptions{TTL: 5 * time.Second})
		requireEvent(t, events, KeyHeld)
		f.stop()
		start := time.Now()
		cancel()
		require.ErrorContains(t, requireEvent(t, events, KeyRemoved).Err, "which expires in 5 s at most")
		require.Equal(t, time.Second, time.Since(start))
		f.start()
		require.NoError(t, k.Remove(t.Context()))
		require.Nil(t, f.Get("agents/ann"))
		requireNoLease(t, f)
	})
}

func TestKeepKeyFails(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		_, err := KeepKey(t.Context(), f.client, "", "", KeyOptions{})
		require.ErrorContains(t, err, "the key is empty")
		_, err = KeepKey(t.Context(), f.client, "a", "", KeyOptions{TTL: time.Millisecond})
		require.ErrorContains(t, err, "TTL is 1ms")
		_, err = KeepKey(t.Context(), f.client, "a", "", KeyOptions{FirstTimeout: -1})
		require.ErrorContains(t, err, "FirstTimeout is -1ns")
		f.On("Txn", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		_, err = KeepKey(t.Context(), f.client, "a", "", KeyOptions{})
		require.Equal(t, rpctypes.ErrPermissionDenied, err)
		requireNoLease(t, f)
	})
}
