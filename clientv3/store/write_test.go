package store_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	. "github.com/quorate/quorate/clientv3/store"
	"github.com/quorate/quorate/retry"
)

func TestUpdatesConflict(t *testing.T) {
	const clients, times = 5, 10
	inBubble(t, func(t *testing.T, _ *fakeetcd.Cluster, _ *clientv3.Client, s *Store[Config]) {
		var updates sync.WaitGroup
		for range clients {
			updates.Go(func() {
				for range times {
					_, err := s.CreateOrUpdate(t.Context(), "web", increment)
					assert.NoError(t, err)
				}
			})
		}
		updates.Wait()
		e := clienttest.Must(s.Get(t.Context(), "web"))
		require.Equal(t, Config{clients * times}, e.Value)
		require.EqualValues(t, clients*times, e.Version)
	})
}

// TestLostAnswers injects a fault during a conditional write, and lets another client write before it is sent again.
func TestLostAnswers(t *testing.T) {
	others := map[string]func(t *testing.T, client *clientv3.Client){
		"nothing": func(*testing.T, *clientv3.Client) {},
		"another key": func(t *testing.T, client *clientv3.Client) {
			clienttest.Must(client.Put(t.Context(), "configs/db", `{"Replicas":9}`))
		},
		"writes": func(t *testing.T, client *clientv3.Client) {
			for range 5 {
				clienttest.Must(client.Put(t.Context(), "configs/db", `{"Replicas":9}`))
				clienttest.Must(client.Put(t.Context(), "configs/web", `{"Replicas":50}`))
			}
		},
		"deleted and created": func(t *testing.T, client *clientv3.Client) {
			clienttest.Must(client.Delete(t.Context(), "configs/web"))
			clienttest.Must(client.Put(t.Context(), "configs/web", `{"Replicas":50}`))
			clienttest.Must(client.Put(t.Context(), "configs/web", `{"Replicas":51}`))
		},
	}
	for fault, lost := range map[string]bool{"answer lost": true, "request lost": false} {
		for other, act := range others {
			t.Run(fault+", "+other, func(t *testing.T) {
				quiet := other == "nothing" || other == "another key"
				run := func(write func(t *testing.T, s *Store[Config], e Entry[Config])) {
					inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, s *Store[Config]) {
						clienttest.Must(s.Put(t.Context(), "web", Config{1}))
						e := clienttest.Must(s.Get(t.Context(), "web"))
						cluster.Once("Txn", func(c *fakeetcd.Call) {
							if lost {
								_, err := c.Execute()
								assert.NoError(t, err)
							}
							act(t, client)
							c.BreakConn()
						})
						write(t, s, e)
						require.GreaterOrEqual(t, cluster.Count("Txn"), 2)
					})
				}
				run(func(t *testing.T, s *Store[Config], before Entry[Config]) {
					calls := 0
					e, err := s.Update(t.Context(), "web", func(c Config) (Config, error) {
						calls++
						return increment(c)
					})
					require.NoError(t, err)
					if lost || quiet {
						assert.Equal(t, 1, calls, "executed once")
						assert.Equal(t, Config{2}, e.Value)
						assert.Equal(t, before.CreateRevision, e.CreateRevision)
						assert.Greater(t, e.ModRevision, before.ModRevision)
					} else {
						assert.Equal(t, 2, calls, "of what the other one has written")
						assert.Greater(t, e.Value.Replicas, 50)
					}
				})
				run(func(t *testing.T, s *Store[Config], before Entry[Config]) {
					err := s.DeleteUnmodified(t.Context(), before)
					if other == "writes" && !lost {
						require.ErrorIs(t, err, ErrModified)
					} else {
						require.NoError(t, err, "the first change is a delete")
					}
				})
			})
		}
	}
}

// TestLostAnswerOverAStaleCache reads from a cache whose watch lags, by leave of the context: the outcome is found out all
// the same.
func TestLostAnswerOverAStaleCache(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, _ *Store[Config]) {
		clienttest.Put(t, cluster, "configs/web", `{"Replicas":1}`)
		cluster.On("Watch", func(c *fakeetcd.Call) {
			c.OnSend(func(m proto.Message) bool { return len(m.(*pb.WatchResponse).Events) == 0 })
			_, _ = c.Execute()
		})
		c := clienttest.Must(cache.New(client, cache.Config{Prefixes: []string{"configs/"}}))
		defer c.Close()
		require.NoError(t, c.WaitSynced(t.Context()))
		cluster.Once("Txn", clienttest.LoseAnswer)
		e := clienttest.Must(New(c, "configs/", asJSON).Update(cache.WithMaxStaleness(t.Context(), time.Hour), "web", increment))
		require.Equal(t, Config{2}, e.Value)
		require.Equal(t, `{"Replicas":2}`, string(cluster.Get("configs/web").Value))
	})
}

// TestEqualUpdateOverAStaleCache sets what a cache whose watch lags still has, after another client's write or delete.
func TestEqualUpdateOverAStaleCache(t *testing.T) {
	for name, value := range map[string]string{"written": `{"Replicas":2}`, "deleted": "", "created": `{"Replicas":3}`} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, _ *Store[Config]) {
				clienttest.Put(t, cluster, "configs/web", `{"Replicas":1}`)
				var behind atomic.Bool
				cluster.On("Watch", func(c *fakeetcd.Call) {
					c.OnSend(func(proto.Message) bool { return !behind.Load() })
					_, _ = c.Execute()
				})
				c := clienttest.Must(cache.New(client, cache.Config{Prefixes: []string{"configs/"}}))
				defer c.Close()
				require.NoError(t, c.WaitSynced(t.Context()))
				s, ctx := New(c, "configs/", asJSON), cache.WithMaxStaleness(t.Context(), time.Hour)
				one := func(Config) (Config, error) { return Config{1}, nil }
				clienttest.Must(s.Update(ctx, "web", one))
				require.Zero(t, cluster.Count("Txn"))
				behind.Store(true)
				if name == "created" {
					clienttest.Put(t, cluster, "configs/new", value)
					require.Equal(t, Config{4}, clienttest.Must(s.Update(ctx, "new", increment)).Value)
					return
				}
				if value == "" {
					clienttest.Must(client.Delete(t.Context(), "configs/web"))
					_, err := s.Update(ctx, "web", one)
					require.ErrorIs(t, err, ErrNotFound)
					return
				}
				clienttest.Put(t, cluster, "configs/web", value)
				e := clienttest.Must(s.Update(ctx, "web", one))
				require.EqualValues(t, 3, e.Version)
				require.Equal(t, `{"Replicas":1}`, string(cluster.Get("configs/web").Value))
			})
		})
	}
}

// TestACreateIsSentOnce loses the answer, and lets another client delete the key meanwhile: a second copy would create it again.
func TestACreateIsSentOnce(t *testing.T) {
	for name, create := range map[string]func(*testing.T, *Store[Config]) error{
		"Create": func(t *testing.T, s *Store[Config]) error {
			_, err := s.Create(t.Context(), "web", Config{3})
			return err
		},
		"CreateOrUpdate": func(t *testing.T, s *Store[Config]) error {
			_, err := s.CreateOrUpdate(t.Context(), "web", increment)
			return err
		},
	} {
		for over, outcome := range map[string]retry.Outcome{"client": retry.OutcomeUnknown, "idempotent": retry.OutcomeExecuted} {
			t.Run(name+" over "+over, func(t *testing.T) {
				inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, _ *Store[Config]) {
					overKVs[over](t, client, func(kv clientv3.KV, _ clientv3.Watcher) {
						s := New(kv, "configs/", asJSON)
						clienttest.Must(s.Put(t.Context(), "any", Config{})) // makes a lane
						cluster.Once("Txn", func(c *fakeetcd.Call) {
							_, _ = c.Execute()
							_, err := client.Delete(t.Context(), "configs/web")
							assert.NoError(t, err)
							c.BreakConn()
						})
						require.Equal(t, outcome, retry.OutcomeOf(create(t, s)))
						require.Equal(t, 1, cluster.PutCount("configs/web"))
					})
				})
			})
		}
	}
}

// TestAnAnswerThatIsTooLarge lets another client write more than the client accepts: each repetition ends the same way.
func TestAnAnswerThatIsTooLarge(t *testing.T) {
	const limit = 4096
	for _, name := range []string{"client", "idempotent"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := clienttest.Start(t, 3)
				client, err := clientv3.New(clientv3.Config{
					Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(), MaxCallRecvMsgSize: limit,
				})
				require.NoError(t, err)
				defer func() { _ = client.Close() }()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				overKVs[name](t, client, func(kv clientv3.KV, _ clientv3.Watcher) {
					s := New(kv, "configs/", asJSON)
					clienttest.Put(t, cluster, "configs/web", `{"Replicas":1}`)
					cluster.Once("Txn", func(c *fakeetcd.Call) {
						clienttest.Put(t, cluster, "configs/web", strings.Repeat(" ", limit))
						c.Answer(c.Execute())
					})
					begin := time.Now()
					_, err = s.Update(ctx, "web", increment)
					require.Equal(t, codes.ResourceExhausted, retry.CodeOf(errors.Unwrap(err)))
					require.Less(t, time.Since(begin), time.Minute)
				})
			})
		})
	}
}

// TestUnsettled covers outcomes that stay unknown.
func TestUnsettled(t *testing.T) {
	t.Run("the context ends", func(t *testing.T) {
		inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Client, s *Store[Config]) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cluster.On("Txn", func(c *fakeetcd.Call) {
				_, _ = c.Execute()
				cancel()
				c.BreakConn()
			})
			_, err := s.Create(ctx, "web", Config{3})
			require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err))
			_, err = s.Create(ctx, "db", Config{3})
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(err), "nothing was sent")
		})
	})
	t.Run("the history is compacted", func(t *testing.T) {
		inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Client, s *Store[Config]) {
			clienttest.Put(t, cluster, "configs/web", `{"Replicas":1}`)
			cluster.Once("Txn", func(c *fakeetcd.Call) {
				_, _ = c.Execute()
				for range 5 {
					clienttest.Put(t, cluster, "configs/web", `{"Replicas":7}`)
				}
				assert.NoError(t, cluster.Compact(cluster.Revision()))
				c.BreakConn()
			})
			_, err := s.Update(t.Context(), "web", increment)
			require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err))
			require.ErrorIs(t, err, rpctypes.ErrCompacted)
		})
	})
	t.Run("the client is closed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, s *Store[Config]) {
			cluster.Once("Txn", func(c *fakeetcd.Call) {
				_, _ = c.Execute()
				_ = client.Close()
			})
			_, err := s.Create(t.Context(), "web", Config{3})
			require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err))
			_, err = s.Create(t.Context(), "web", Config{3})
			require.Equal(t, 1, strings.Count(err.Error(), "the client connection is closing"), "%v", err)
		})
	})
}

// TestEqualWrites increments the same value by two clients, and loses one of the requests: over package idempotent both
// count.
func TestEqualWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, _ *Store[Config]) {
		kv := clienttest.Must(idempotent.New(t.Context(), client, idempotent.Config{}))
		defer func() { assert.NoError(t, kv.Close()) }()
		s := New[Config](kv, "configs/", asJSON)
		clienttest.Put(t, cluster, "configs/web", `{"Replicas":1}`)
		cluster.Once("Txn", func(c *fakeetcd.Call) {
			clienttest.Put(t, cluster, "configs/web", `{"Replicas":2}`)
			c.BreakConn()
		})
		e := clienttest.Must(s.Update(t.Context(), "web", increment))
		require.Equal(t, Config{3}, e.Value)
	})
}

func TestUpdateThatWritesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Client, s *Store[Config]) {
		_, err := s.Update(clienttest.Ended(t), "web", increment)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(err))
		clienttest.Put(t, cluster, "configs/bad", "no JSON")
		_, err = s.Update(t.Context(), "bad", increment)
		require.ErrorIs(t, err, ErrDecode)
		require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(err))
		_, err = s.Update(t.Context(), "web", increment)
		require.ErrorIs(t, err, ErrNotFound)
		require.EqualError(t, err, `store: update "configs/web" (json): not executed: the key does not exist`)
		clienttest.Put(t, cluster, "configs/web", `{"Replicas":1}`)
		no := errors.New("no")
		_, err = s.Update(t.Context(), "web", func(c Config) (Config, error) { return c, no })
		require.ErrorIs(t, err, no)
		require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(err))
		clienttest.Must(s.Update(t.Context(), "web", func(c Config) (Config, error) { return c, nil }))
		require.Equal(t, 1, cluster.PutCount("configs/web"))
		require.ErrorContains(t, s.DeleteUnmodified(t.Context(), Entry[Config]{Key: "web"}), "ModRevision")
	})
}

// TestUpdateKeepsTheLease updates a key that belongs to a lease.
func TestUpdateKeepsTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, s *Store[Config]) {
		lease := clienttest.Must(client.Grant(t.Context(), 60))
		clienttest.Must(s.Create(t.Context(), "web", Config{1}, clientv3.WithLease(lease.ID)))
		e := clienttest.Must(s.Update(t.Context(), "web", increment))
		require.Equal(t, lease.ID, e.Lease)
		require.EqualValues(t, lease.ID, cluster.Get("configs/web").Lease)
		e = clienttest.Must(s.Update(t.Context(), "web", increment, clientv3.WithLease(clientv3.NoLease)))
		require.Zero(t, e.Lease)
		require.Zero(t, cluster.Get("configs/web").Lease)
	})
}
