package kratos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kratos/kratos/v2/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	quoratekratos "github.com/quorate/quorate/adapters/kratos"
	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/etcdtest"
	"github.com/quorate/quorate/observe/introspect"
	"github.com/quorate/quorate/resolver/etcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "/microservices/users/1"

func users(id string) *registry.ServiceInstance {
	return &registry.ServiceInstance{
		ID: id, Name: "users", Version: "v1", Metadata: map[string]string{"zone": "a"}, Endpoints: []string{"grpc://10.0.0." + id + ":9000"},
	}
}

// start returns a cluster in memory and a registry, with the events of its registrations.
func start(t *testing.T) (*fakeetcd.Cluster, *clientv3.Client, *quoratekratos.Registry, chan etcd.Event) {
	t.Helper()
	cluster, err := fakeetcd.Start(1)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	events := make(chan etcd.Event, 100)
	r, err := quoratekratos.New(client, quoratekratos.Config{Notify: func(s *registry.ServiceInstance, e etcd.Event) {
		if s.ID == "1" {
			events <- e
		}
	}})
	require.NoError(t, err)
	return cluster, client, r, events
}

// names returns the IDs of instances.
func names(all []*registry.ServiceInstance) []string {
	var ids []string
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

// next returns the IDs of the next list of a watcher.
func next(t *testing.T, w registry.Watcher) []string {
	t.Helper()
	all, err := w.Next()
	require.NoError(t, err)
	return names(all)
}

// nextWith waits for a list of n instances.
func nextWith(t *testing.T, w registry.Watcher, n int) {
	t.Helper()
	for got := -1; got != n; {
		got = len(next(t, w))
	}
}

// The lease is lost in an outage. Callers keep the last list meanwhile, and the instance is registered again without a restart.
func TestARegistrationComesBackAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, _, r, events := start(t)
		w, err := r.Watch(t.Context(), "users")
		require.NoError(t, err)
		require.NoError(t, r.Register(t.Context(), users("1")))
		require.Equal(t, []string{"1"}, next(t, w))
		first := <-events
		require.Equal(t, etcd.Registered, first.State)

		cluster.Member(0).Stop()
		time.Sleep(20 * time.Second) // longer than the TTL
		require.ErrorIs(t, (<-events).Err, clientv3.ErrLeaseUnanswered)
		require.NoError(t, cluster.ExpireLease(int64(first.Lease)))
		require.Nil(t, cluster.Get(key))
		cluster.Member(0).Start()
		for e := range events {
			if e.State == etcd.Registered && e.Again {
				require.NotEqual(t, first.Lease, e.Lease)
				break
			}
		}
		require.NotNil(t, cluster.Get(key))
		nextWith(t, w, 1) // that it was unreachable may be seen or not
		all, err := r.GetService(t.Context(), "users")
		require.NoError(t, err)
		require.Equal(t, []*registry.ServiceInstance{users("1")}, all)

		require.NoError(t, r.Deregister(t.Context(), users("1")))
		require.Nil(t, cluster.Get(key))
		require.NoError(t, r.Deregister(t.Context(), users("1")), "it is not registered any more")
		require.NoError(t, w.Stop())
	})
}

// Keys and values are those of kratos' own registry for etcd: both find the other's instances, and no others.
func TestInstancesOfKratosOwnRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, _, r, _ := start(t)
		require.NoError(t, r.Register(t.Context(), users("1")))
		var theirs registry.ServiceInstance
		require.NoError(t, json.Unmarshal(cluster.Get(key).Value, &theirs))
		require.True(t, theirs.Equal(users("1")))

		value, err := json.Marshal(users("2"))
		require.NoError(t, err)
		require.NoError(t, r.Register(t.Context(), &registry.ServiceInstance{ID: "5", Name: "users/admin"}))
		for k, v := range map[string]string{
			"/microservices/users/2": string(value), "/microservices/users/3": "no JSON", "/microservices/users2/4": string(value),
		} {
			_, err := cluster.Put(k, v)
			require.NoError(t, err)
		}
		all, err := r.GetService(t.Context(), "users")
		require.NoError(t, err)
		require.Equal(t, []string{"1", "2"}, names(all))
		w, err := r.Watch(t.Context(), "users")
		require.NoError(t, err)
		nextWith(t, w, 2)
		require.NoError(t, w.Stop())
		_, err = w.Next()
		require.ErrorIs(t, err, context.Canceled)
	})
}

// Next waits for a first instance, for changes, and no longer than its context or the client.
func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, r, _ := start(t)
		w, err := r.Watch(t.Context(), "users")
		require.NoError(t, err)
		results := make(chan string, 1)
		go func() {
			for {
				all, err := w.Next()
				results <- fmt.Sprint(names(all), err)
				if err != nil {
					return
				}
			}
		}()
		time.Sleep(time.Minute)
		require.Empty(t, results, "there is no instance")
		require.NoError(t, r.Register(t.Context(), users("1")))
		require.Equal(t, "[1] <nil>", <-results)
		changed := users("1")
		changed.Version = "v2"
		require.NoError(t, r.Register(t.Context(), changed), "it replaces the other")
		require.Equal(t, "[1] <nil>", <-results)
		time.Sleep(time.Minute)
		require.Empty(t, results)
		all, err := r.GetService(t.Context(), "users")
		require.NoError(t, err)
		require.Equal(t, "v2", all[0].Version)
		require.NoError(t, client.Close())
		require.Contains(t, <-results, "the etcd client was closed")
		require.NoError(t, w.Stop())
	})
}

// An instance is registered again while its Deregister fails: the next Deregister removes that one.
func TestRegisteredAgainDuringDeregister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, _, r, _ := start(t)
		require.NoError(t, r.Register(t.Context(), users("1")))
		cluster.Once("LeaseRevoke", func(c *fakeetcd.Call) {
			assert.NoError(t, r.Register(t.Context(), users("1")))
			c.Answer(nil, rpctypes.ErrGRPCPermissionDenied)
		})
		require.ErrorIs(t, r.Deregister(t.Context(), users("1")), rpctypes.ErrPermissionDenied)
		require.NotNil(t, cluster.Get(key))
		require.NoError(t, r.Deregister(t.Context(), users("1")))
		require.Nil(t, cluster.Get(key))
	})
}

// Deregister can be called again after an error.
func TestDeregisterAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, _, r, _ := start(t)
		require.NoError(t, r.Register(t.Context(), users("1")))
		cluster.Once("LeaseRevoke", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		require.ErrorIs(t, r.Deregister(t.Context(), users("1")), rpctypes.ErrPermissionDenied)
		require.NoError(t, r.Deregister(t.Context(), users("1")))
		require.Nil(t, cluster.Get(key))
	})
}

// A watcher whose context has ended watches nothing more, before its Stop.
func TestWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, r, _ := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		w, err := r.Watch(ctx, "users")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Equal(t, 1, client.Introspect(introspect.Options{}).Watches.Open)
		cancel()
		time.Sleep(time.Second)
		require.Zero(t, client.Introspect(introspect.Options{}).Watches.Open)
		_, err = w.Next()
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, w.Stop())
	})
}

func TestNewRefuses(t *testing.T) {
	_, err := quoratekratos.New(nil, quoratekratos.Config{})
	require.ErrorContains(t, err, "give one that clientv3.New returned")
	_, client, _, _ := start(t)
	_, err = quoratekratos.New(client, quoratekratos.Config{TTL: time.Millisecond})
	require.ErrorContains(t, err, "TTL is 1ms")
}

func Example() {
	cluster, err := etcdtest.New(etcdtest.Config{}) // an etcd in memory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	ctx := context.Background()

	r, err := quoratekratos.New(cluster.Client, quoratekratos.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	// kratos does this for an application with kratos.Registrar(r), and Deregister when it stops.
	users := &registry.ServiceInstance{ID: "1", Name: "users", Endpoints: []string{"grpc://10.0.0.7:9000"}}
	if err := r.Register(ctx, users); err != nil {
		fmt.Println(err)
		return
	}
	all, err := r.GetService(ctx, "users")
	fmt.Println(all[0].Endpoints, err)
	fmt.Println(r.Deregister(ctx, users))
	// Output:
	// [grpc://10.0.0.7:9000] <nil>
	// <nil>
}
