package integration_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	recipe "github.com/quorate/quorate/clientv3/experimental/recipes"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func ours(t *testing.T, lease int64) program {
	t.Helper()
	c := connect(t)
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

type ourSTM struct{ concurrency.STM }

func (s ourSTM) Put(key, val string) { s.STM.Put(key, val) }
