// Package official_test has programs of Quorate and of the official client share locks, elections, transactions, recipes and
// the leasing cache on one server.
package official_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	official "go.etcd.io/etcd/client/v3"
	officialconcurrency "go.etcd.io/etcd/client/v3/concurrency"
	officialrecipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	officialleasing "go.etcd.io/etcd/client/v3/leasing"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	recipe "github.com/quorate/quorate/clientv3/experimental/recipes"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// endpoints are those of a cluster of one member that all tests share. Each has its own prefix.
var endpoints []string

func TestMain(m *testing.M) {
	labtest.Main(m, func(c *lab.Cluster) { endpoints = c.Endpoints() })
}

var prefixes atomic.Int64

// newPrefix returns a prefix that no other test uses, nor another run of this one.
func newPrefix(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(t.Name(), "#", prefixes.Add(1))
}

// What the packages have in common.
type (
	mutex interface {
		Lock(ctx context.Context) error
		TryLock(ctx context.Context) error
		Unlock(ctx context.Context) error
		Key() string
	}
	election interface {
		Campaign(ctx context.Context, val string) error
		Proclaim(ctx context.Context, val string) error
		Resign(ctx context.Context) error
		Key() string
		Rev() int64
	}
	stm interface {
		Get(key ...string) string
		Put(key, val string)
	}
	rwMutex interface {
		Lock() error
		Unlock() error
		RLock() error
		RUnlock() error
	}
	queue interface {
		Enqueue(val string) error
		Dequeue() (string, error)
	}
	barrier interface {
		Enter() error
		Leave() error
	}
)

// program is one with a client of either kind, and a session.
type program struct {
	lease             int64
	locked, notLeader error

	mutex    func(prefix string) mutex
	election func(prefix string) election
	resumed  func(prefix, key string, rev int64) election
	rwMutex  func(prefix string) rwMutex
	queue    func(prefix string) queue
	barrier  func(prefix string, count int) barrier
	// observe passes on the leaders until ctx ends.
	observe func(ctx context.Context, prefix string, leaders chan<- string)
	// put writes a key if the mutex is held.
	put func(ctx context.Context, m mutex, key, value string) (done bool, err error)
	stm func(level int, apply func(stm) error) error
	// get, set and remove go through a leasing cache.
	leasing func(prefix string) (get func(key string) string, set func(key, value string), remove func(key string))
}

// kinds make programs of each kind. Their session keeps the given lease alive, or a new one that it revokes in the end.
var kinds = map[string]func(t *testing.T, lease int64) program{"official": theirs, "quorate": ours}

// both runs a test for a program of one kind that is there before one of the other kind.
func both(t *testing.T, test func(t *testing.T, one, other func(t *testing.T, lease int64) program)) {
	t.Run("official before quorate", func(t *testing.T) { test(t, theirs, ours) })
	t.Run("quorate before official", func(t *testing.T) { test(t, ours, theirs) })
}

// several returns programs of both kinds in turn.
func several(t *testing.T, n int) (all []program) {
	t.Helper()
	for range n / 2 {
		all = append(all, ours(t, 0), theirs(t, 0))
	}
	return all
}

// together has all programs do something at the same time.
func together(t *testing.T, programs []program, do func(i int, p program)) {
	t.Helper()
	var work sync.WaitGroup
	for i, p := range programs {
		work.Go(func() { do(i, p) })
	}
	done := make(chan struct{})
	go func() {
		work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-labtest.Context(t).Done():
		require.Fail(t, "not all have ended")
	}
}

func ours(t *testing.T, lease int64) program {
	t.Helper()
	c := labtest.Client(t, clientv3.Config{Endpoints: endpoints})
	s, err := concurrency.NewSession(c, concurrency.WithLease(clientv3.LeaseID(lease)))
	require.NoError(t, err)
	endSession(t, lease, s)
	return program{
		lease: int64(s.Lease()), locked: concurrency.ErrLocked, notLeader: concurrency.ErrElectionNotLeader,
		mutex:    func(prefix string) mutex { return concurrency.NewMutex(s, prefix) },
		election: func(prefix string) election { return concurrency.NewElection(s, prefix) },
		resumed:  func(prefix, key string, rev int64) election { return concurrency.ResumeElection(s, prefix, key, rev) },
		rwMutex:  func(prefix string) rwMutex { return recipe.NewRWMutex(s, prefix) },
		queue:    func(prefix string) queue { return recipe.NewQueue(c, prefix) },
		barrier:  func(prefix string, count int) barrier { return recipe.NewDoubleBarrier(s, prefix, count) },
		observe: func(ctx context.Context, prefix string, leaders chan<- string) {
			for resp := range concurrency.NewElection(s, prefix).Observe(ctx) {
				leaders <- string(resp.Kvs[0].Value)
			}
		},
		put: func(ctx context.Context, m mutex, key, value string) (bool, error) {
			resp, err := c.Txn(ctx).If(m.(*concurrency.Mutex).IsOwner()).Then(clientv3.OpPut(key, value)).Commit()
			return err == nil && resp.Succeeded, err
		},
		stm: func(level int, apply func(stm) error) error {
			_, err := concurrency.NewSTM(c, func(s concurrency.STM) error { return apply(ourSTM{s}) }, concurrency.WithIsolation(concurrency.Isolation(level)))
			return err
		},
		leasing: func(prefix string) (get func(string) string, set func(key, value string), remove func(string)) {
			kv, stop, err := leasing.NewKV(c, prefix)
			require.NoError(t, err)
			t.Cleanup(stop)
			get = func(key string) string {
				resp, err := kv.Get(labtest.Context(t), key)
				require.NoError(t, err)
				if len(resp.Kvs) == 0 {
					return ""
				}
				return string(resp.Kvs[0].Value)
			}
			set = func(key, value string) {
				_, err := kv.Txn(labtest.Context(t)).Then(clientv3.OpPut(key, value)).Commit()
				require.NoError(t, err)
			}
			remove = func(key string) {
				_, err := kv.Delete(labtest.Context(t), key)
				require.NoError(t, err)
			}
			return get, set, remove
		},
	}
}

func theirs(t *testing.T, lease int64) program {
	t.Helper()
	c := labtest.Official(t, endpoints...)
	s, err := officialconcurrency.NewSession(c, officialconcurrency.WithLease(official.LeaseID(lease)))
	require.NoError(t, err)
	endSession(t, lease, s)
	return program{
		lease: int64(s.Lease()), locked: officialconcurrency.ErrLocked, notLeader: officialconcurrency.ErrElectionNotLeader,
		mutex:    func(prefix string) mutex { return officialconcurrency.NewMutex(s, prefix) },
		election: func(prefix string) election { return officialconcurrency.NewElection(s, prefix) },
		resumed: func(prefix, key string, rev int64) election {
			return officialconcurrency.ResumeElection(s, prefix, key, rev)
		},
		rwMutex: func(prefix string) rwMutex { return officialrecipe.NewRWMutex(s, prefix) },
		queue:   func(prefix string) queue { return officialrecipe.NewQueue(c, prefix) },
		barrier: func(prefix string, count int) barrier { return officialrecipe.NewDoubleBarrier(s, prefix, count) },
		observe: func(ctx context.Context, prefix string, leaders chan<- string) {
			for resp := range officialconcurrency.NewElection(s, prefix).Observe(ctx) {
				leaders <- string(resp.Kvs[0].Value)
			}
		},
		put: func(ctx context.Context, m mutex, key, value string) (bool, error) {
			resp, err := c.Txn(ctx).If(m.(*officialconcurrency.Mutex).IsOwner()).Then(official.OpPut(key, value)).Commit()
			return err == nil && resp.Succeeded, err
		},
		stm: func(level int, apply func(stm) error) error {
			_, err := officialconcurrency.NewSTM(c, func(s officialconcurrency.STM) error { return apply(theirSTM{s}) },
				officialconcurrency.WithIsolation(officialconcurrency.Isolation(level)))
			return err
		},
		leasing: func(prefix string) (get func(string) string, set func(key, value string), remove func(string)) {
			kv, stop, err := officialleasing.NewKV(c, prefix)
			require.NoError(t, err)
			t.Cleanup(stop)
			get = func(key string) string {
				resp, err := kv.Get(labtest.Context(t), key)
				require.NoError(t, err)
				if len(resp.Kvs) == 0 {
					return ""
				}
				return string(resp.Kvs[0].Value)
			}
			set = func(key, value string) {
				_, err := kv.Txn(labtest.Context(t)).Then(official.OpPut(key, value)).Commit()
				require.NoError(t, err)
			}
			remove = func(key string) {
				_, err := kv.Delete(labtest.Context(t), key)
				require.NoError(t, err)
			}
			return get, set, remove
		},
	}
}

type ourSTM struct{ concurrency.STM }

func (s ourSTM) Put(key, val string) { s.STM.Put(key, val) }

type theirSTM struct{ officialconcurrency.STM }

func (s theirSTM) Put(key, val string) { s.STM.Put(key, val) }

// endSession ends a session with the test, and revokes its lease unless that is another's.
func endSession(t *testing.T, lease int64, s interface {
	Close() error
	Orphan()
},
) {
	if lease != 0 {
		t.Cleanup(s.Orphan)
		return
	}
	t.Cleanup(func() { _ = s.Close() }) // a test may have revoked the lease
}

// brief is how long something is given to happen that must not.
const brief = 200 * time.Millisecond

// requireNothingYet shows that f has not returned.
func requireNothingYet(t *testing.T, result <-chan error) {
	t.Helper()
	select {
	case err := <-result:
		require.Fail(t, "it did not wait", "%v", err)
	case <-time.After(brief):
	}
}
