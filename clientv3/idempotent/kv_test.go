package idempotent

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/batch"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBubble runs a test with a KV over a client of an etcd in memory.
func inBubble(t *testing.T, cfg Config, test func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV)) {
	t.Helper()
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		kv := clienttest.Must(New(t.Context(), client, cfg))
		defer func() { assert.NoError(t, kv.Close()) }()
		test(t, cluster, kv)
	})
}

// What can happen to a request.
var (
	answerLost        = clienttest.LoseAnswer
	requestLost       = func(c *fakeetcd.Call) { c.BreakConn() }
	executedWithError = func(c *fakeetcd.Call) {
		_, _ = c.Execute()
		c.Answer(nil, rpctypes.ErrGRPCTimeout)
	}
	executedWithNoSpace = func(c *fakeetcd.Call) {
		if _, err := c.Execute(); err == nil {
			c.Answer(nil, rpctypes.ErrGRPCNoSpace)
		}
	}
	answeredTwice = func(c *fakeetcd.Call) {
		resp, _ := c.Execute()
		_ = c.AnswerTwice(resp)
	}
)

// TestResponsesAreThoseOfPlainCalls has the answer as it comes, and after faults.
func TestResponsesAreThoseOfPlainCalls(t *testing.T) {
	for name, fault := range map[string]func(*fakeetcd.Call){
		"none": func(*fakeetcd.Call) {}, "answer lost": answerLost, "request lost": requestLost, "error": executedWithError,
		"no space": executedWithNoSpace, "answered twice": answeredTwice,
	} {
		t.Run(name, func(t *testing.T) {
			clienttest.RequirePlainResponses(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) (clientv3.KV, func()) {
				kv := clienttest.Must(New(t.Context(), client, Config{}))
				t.Cleanup(func() { assert.NoError(t, kv.Close()) })
				return kv, func() {
					cluster.Once("Txn", func(c *fakeetcd.Call) {
						if len(c.Request.(*pb.TxnRequest).Success) > 0 { // those of the operations that only read have none
							fault(c)
						}
					})
				}
			})
		})
	}
}

// TestLargestTxn sends the largest transaction that fits together with the additions of the KV, and loses the answer.
func TestLargestTxn(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		puts := make([]clientv3.Op, 126)
		for i := range puts {
			clienttest.Put(t, cluster, fmt.Sprint("k", i), strconv.Itoa(i))
			puts[i] = clientv3.OpPut(fmt.Sprint("k", i), "v", clientv3.WithPrevKV())
		}
		cluster.Once("Txn", answerLost)
		resp, err := kv.Do(t.Context(), clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Version("k0"), "=", 1)}, puts, nil))
		require.NoError(t, err)
		assert.True(t, resp.Txn().Succeeded)
		require.Len(t, resp.Txn().Responses, len(puts))
		for i, part := range resp.Txn().Responses {
			assert.Equal(t, strconv.Itoa(i), string(part.GetResponsePut().GetPrevKv().GetValue()))
		}
	})
}

// TestResponseLost loses responses that cannot be rebuilt any more.
func TestResponseLost(t *testing.T) {
	for name, tt := range map[string]struct {
		op      clientv3.Op
		compact bool
		cause   string
	}{
		"compacted": {clientv3.OpDelete("k", clientv3.WithPrevKV()), true, "compacted"},
		"nested": {
			clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Version("k"), ">", 0)}, []clientv3.Op{clientv3.OpDelete("k")}, nil)}, nil),
			false, "nested",
		},
		"read in between": {
			clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("k", ""), clientv3.OpGet("k", clientv3.WithPrefix()), clientv3.OpPut("k2", "")}, nil),
			false, "between",
		},
		"deleted twice": {
			clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete("k"), clientv3.OpDelete("k", clientv3.WithPrefix())}, nil),
			false, "delete the same keys",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
				clienttest.Put(t, cluster, "k", "v")
				cluster.Once("Txn", func(c *fakeetcd.Call) {
					_, _ = c.Execute()
					if tt.compact {
						assert.NoError(t, cluster.Compact(cluster.Revision()))
					}
					c.BreakConn()
				})
				_, err := kv.Do(t.Context(), tt.op)
				var lost *retry.ResponseLostError
				require.ErrorAs(t, err, &lost)
				require.ErrorContains(t, err, tt.cause)
				require.Equal(t, cluster.Revision(), lost.Revision)
				require.Equal(t, retry.OutcomeExecuted, retry.OutcomeOf(err))
			})
		})
	}
}

// TestLateRequest executes a request after its repetition.
func TestLateRequest(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		late, done := make(chan struct{}), make(chan struct{})
		cluster.Once("Txn", func(c *fakeetcd.Call) {
			defer close(done)
			c.BreakConn()
			<-late
			_, err := c.Execute()
			assert.NoError(t, err)
		})
		clienttest.Must(kv.Put(t.Context(), "k", "v"))
		clienttest.Must(kv.Put(t.Context(), "k", "w"))
		close(late)
		<-done
		require.Equal(t, 2, cluster.PutCount("k"))
		require.Equal(t, "w", string(cluster.Get("k").Value))
	})
}

// TestFrozenMember sends a request that is never answered. It is sent to another member long
// before Config.WriteStallTimeout, which ends plain writes.
func TestFrozenMember(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		for i := range 50 {
			clienttest.Must(kv.Put(t.Context(), "warm", strconv.Itoa(i)))
		}
		cluster.Once("Txn", func(c *fakeetcd.Call) { _ = c.Hold(nil) })
		begun := time.Now()
		clienttest.Must(kv.Put(t.Context(), "k", "v"))
		require.Less(t, time.Since(begun), 400*time.Millisecond)
		require.Equal(t, 1, cluster.PutCount("k"))
	})
}

func leaseOf(kv *KV) int64 {
	kv.pool.mu.Lock()
	defer kv.pool.mu.Unlock()
	return int64(kv.pool.session.Lease())
}

func TestLeaseExpired(t *testing.T) {
	for name, tt := range map[string]struct {
		executed, answered, known bool
	}{
		"before the write":         {false, true, true},
		"with the answer":          {true, false, false},
		"with a lost request":      {false, false, false},
		"after an answer was sent": {true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
				lease := leaseOf(kv)
				cluster.Once("Txn", func(c *fakeetcd.Call) {
					if tt.executed {
						_, _ = c.Execute()
					}
					assert.NoError(t, cluster.ExpireLease(lease))
					if !tt.answered {
						c.BreakConn()
					}
				})
				_, err := kv.Put(t.Context(), "k", "v")
				if tt.known {
					require.NoError(t, err)
					require.Equal(t, 1, cluster.PutCount("k"))
				} else {
					require.ErrorAs(t, err, new(*retry.UnknownOutcomeError))
					require.ErrorIs(t, err, errLaneLost)
				}
				clienttest.Must(kv.Put(t.Context(), "k", "w"))
				require.Equal(t, "w", string(cluster.Get("k").Value))
				require.NotEqual(t, lease, leaseOf(kv))
			})
		})
	}
}

// TestPanic executes a transaction with an operation of no kind, which panics.
func TestPanic(t *testing.T) {
	inBubble(t, Config{Lanes: 1}, func(t *testing.T, _ *fakeetcd.Cluster, kv *KV) {
		require.Panics(t, func() {
			_, _ = kv.Do(t.Context(), clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("k", ""), {}}, nil))
		})
		_, err := kv.Put(t.Context(), "k", "v")
		require.NoError(t, err, "the lane is free")
	})
}

// TestLaneDeleted deletes the lanes.
func TestLaneDeleted(t *testing.T) {
	inBubble(t, Config{Lanes: 1}, func(t *testing.T, _ *fakeetcd.Cluster, kv *KV) {
		clienttest.Must(kv.plain.Delete(t.Context(), DefaultPrefix, clientv3.WithPrefix()))
		clienttest.Must(kv.Put(t.Context(), "k", "v"))
	})
}

// TestContextEnds ends the context of a write, whose request arrives before or after that of the next write.
func TestContextEnds(t *testing.T) {
	for name, before := range map[string]bool{"the late request arrives before": true, "the late request arrives after": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{Lanes: 1}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
				late, done := make(chan struct{}), make(chan struct{})
				hold := cluster.On("Txn", func(c *fakeetcd.Call) {
					if c.Number > 3 { // only the first is late
						_ = c.Hold(nil)
						c.Answer(nil, rpctypes.ErrGRPCTimeout)
						return
					}
					defer close(done)
					<-late
					_, err := c.Execute()
					assert.NoError(t, err)
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := kv.Put(ctx, "k", "first")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err))
				hold.Remove()
				if before {
					close(late)
					<-done
				}
				clienttest.Must(kv.Put(t.Context(), "k", "second"))
				if !before {
					close(late)
					<-done
					require.Equal(t, 1, cluster.PutCount("k"))
				} else {
					require.Equal(t, 2, cluster.PutCount("k"))
				}
				require.Equal(t, "second", string(cluster.Get("k").Value))
			})
		})
	}
}

// TestNoLaneFree ends the context of a write before there is a lane.
func TestNoLaneFree(t *testing.T) {
	inBubble(t, Config{Lanes: 1}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		release := make(chan struct{})
		cluster.On("Txn", func(c *fakeetcd.Call) { _ = c.Hold(release) })
		var all sync.WaitGroup
		all.Go(func() { _, err := kv.Put(t.Context(), "k", "v"); assert.NoError(t, err) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := kv.Put(ctx, "k", "w")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(err))
		close(release)
		all.Wait()
		require.Equal(t, 1, cluster.PutCount("k"))
	})
}

// TestEndedContext makes writes whose context has ended before the call, while a lane is free. None is sent.
func TestEndedContext(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		sent := cluster.Count("Txn")
		for range 40 { // which of lane and context is taken is random
			_, err := kv.Put(clienttest.Ended(t), "k", "v")
			require.Equal(t, &retry.NotSentError{Err: context.Canceled}, err)
		}
		require.Equal(t, sent, cluster.Count("Txn"))
	})
}

// TestRefused refuses the first request, or one after a request with an unknown outcome.
func TestRefused(t *testing.T) {
	refused := func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCPermissionDenied) }
	noSpace := func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCNoSpace) }
	for name, tt := range map[string]struct {
		faults   []func(*fakeetcd.Call)
		executed bool
		want     error
	}{
		"at once":                           {[]func(*fakeetcd.Call){refused}, false, rpctypes.ErrPermissionDenied},
		"after a lost request":              {[]func(*fakeetcd.Call){requestLost, refused}, false, rpctypes.ErrPermissionDenied},
		"after a lost answer":               {[]func(*fakeetcd.Call){answerLost, refused}, true, nil},
		"and a lost withdrawal":             {[]func(*fakeetcd.Call){requestLost, refused, requestLost}, false, rpctypes.ErrPermissionDenied},
		"and a lost answer to a withdrawal": {[]func(*fakeetcd.Call){requestLost, refused, answerLost}, false, rpctypes.ErrPermissionDenied},
		"no space":                          {[]func(*fakeetcd.Call){noSpace}, false, rpctypes.ErrNoSpace},
		"no space for the withdrawal":       {[]func(*fakeetcd.Call){requestLost, refused, noSpace}, false, rpctypes.ErrPermissionDenied},
		"executed, then there is no space":  {[]func(*fakeetcd.Call){answerLost, noSpace}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{Lanes: 1}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
				for _, fault := range tt.faults {
					cluster.Once("Txn", fault)
				}
				_, err := kv.Put(t.Context(), "k", "v")
				require.ErrorIs(t, err, tt.want)
				if tt.executed {
					require.NoError(t, err)
					require.Equal(t, 1, cluster.PutCount("k"))
				} else {
					require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(err))
					require.Zero(t, cluster.PutCount("k"))
				}
				clienttest.Must(kv.Put(t.Context(), "k", "w"))
				require.Equal(t, "w", string(cluster.Get("k").Value))
			})
		})
	}
}

// TestMismatch gets answers that do not match: requests follow ever more slowly, and the outcome remains unknown.
func TestMismatch(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		before := cluster.Count("Txn")
		hook := cluster.On("Txn", func(c *fakeetcd.Call) {
			resp, _ := c.Execute()
			c.Answer(&pb.TxnResponse{Header: resp.(*pb.TxnResponse).Header}, nil)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := kv.Put(ctx, "k", "v")
		require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err))
		require.Less(t, cluster.Count("Txn")-before, 600, "0.1 s each")
		hook.Remove()
		require.Equal(t, 1, cluster.PutCount("k"))
	})
}

// TestClusterChanged gets an answer of another cluster, and of one that was restored.
func TestClusterChanged(t *testing.T) {
	for name, change := range map[string]func(*pb.TxnResponse){
		"another cluster": func(r *pb.TxnResponse) { r.Header.ClusterId++ },
		"restored":        func(r *pb.TxnResponse) { r.Header.Revision -= 2 },
		"restored, and has passed the revision": func(r *pb.TxnResponse) {
			r.Succeeded = false
			r.Responses = []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{
				Kvs: []*mvccpb.KeyValue{{Value: []byte(newRecord(1, true)), CreateRevision: 2, ModRevision: 2}},
			}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
				cluster.Once("Txn", func(c *fakeetcd.Call) {
					resp, err := c.Execute()
					if assert.NoError(t, err) {
						change(resp.(*pb.TxnResponse))
						c.Answer(resp, nil)
					}
				})
				for range 2 {
					_, err := kv.Put(t.Context(), "k", "v")
					require.ErrorAs(t, err, new(*clientv3.ClusterChangedError))
				}
				require.Equal(t, 1, cluster.PutCount("k"))
			})
		})
	}
}

// TestUnusable uses servers, clients and configurations with which no lane works. No lease is left.
func TestUnusable(t *testing.T) {
	fail := func(method string, err error) func(*fakeetcd.Cluster, *clientv3.Client) {
		return func(cluster *fakeetcd.Cluster, _ *clientv3.Client) {
			cluster.On(method, func(c *fakeetcd.Call) { c.Answer(nil, err) })
		}
	}
	for name, tt := range map[string]struct {
		cfg     Config
		prepare func(*fakeetcd.Cluster, *clientv3.Client)
		want    string
	}{
		"negative lanes": {cfg: Config{Lanes: -1}, want: "Config.Lanes is -1"},
		"too many lanes": {cfg: Config{Lanes: math.MaxInt}, want: "at most 65536"},
		"negative TTL":   {cfg: Config{TTL: -1}, want: "Config.TTL is -1"},
		"no such Txn":    {prepare: fail("Txn", status.Error(codes.Unimplemented, "unsupported transaction")), want: "unsupported transaction"},
		"no leases":      {prepare: fail("LeaseGrant", status.Error(codes.Unimplemented, "no leases")), want: "no leases"},
		"no permission":  {prepare: fail("Txn", rpctypes.ErrGRPCPermissionDenied), want: `below "_lanes/"`},
		"no keepalives":  {prepare: func(_ *fakeetcd.Cluster, c *clientv3.Client) { _ = c.Lease.Close() }, want: "keep alive halted"},
	} {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
				if tt.prepare != nil {
					tt.prepare(cluster, client)
				}
				_, err := New(t.Context(), client, tt.cfg)
				require.ErrorContains(t, err, tt.want)
				require.Empty(t, clienttest.Must(client.Leases(t.Context())).Leases)
			})
		})
	}
}

func TestPrefixIsReserved(t *testing.T) {
	inBubble(t, Config{Prefix: "m/"}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		for _, op := range []clientv3.Op{
			clientv3.OpPut("m/1", ""), clientv3.OpDelete("m", clientv3.WithPrefix()), clientv3.OpDelete("", clientv3.WithFromKey()),
			clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpDelete("a", clientv3.WithRange("z"))}),
		} {
			_, err := kv.Do(t.Context(), op)
			require.ErrorContains(t, err, `below "m/"`)
			require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(err))
			require.Equal(t, retry.Definite, retry.Classify(err, retry.Evidence{Sent: true}))
		}
		for _, op := range []clientv3.Op{clientv3.OpPut("m", ""), clientv3.OpPut("m0", ""), clientv3.OpDelete("n", clientv3.WithFromKey())} {
			clienttest.Must(kv.Do(t.Context(), op))
		}
	})
}

func TestReadsArePlain(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		txns := cluster.Count("Txn")
		clienttest.Get(t, kv, "k")
		clienttest.Must(kv.Txn(t.Context()).Then(clientv3.OpGet("k")).Commit())
		require.Equal(t, txns+1, cluster.Count("Txn"))
		require.Len(t, cluster.Calls("Txn")[txns].Requests[0].(*pb.TxnRequest).Success, 1, "no lane")
		resp := clienttest.Must(kv.Txn(t.Context()).If(clientv3.Compare(clientv3.Version("k"), ">", 0)).Then(clientv3.OpDelete("k")).Else(clientv3.OpPut("k", "v")).Commit())
		require.False(t, resp.Succeeded)
		require.Panics(t, func() { kv.Txn(t.Context()).Then().If() })
	})
}

func TestClose(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		release := make(chan struct{})
		cluster.Once("Txn", func(c *fakeetcd.Call) { _ = c.Hold(release) })
		var all sync.WaitGroup
		all.Go(func() { _, err := kv.Put(t.Context(), "k", "v"); assert.NoError(t, err) })
		synctest.Wait()
		all.Go(func() { assert.NoError(t, kv.Close()) })
		synctest.Wait()
		close(release)
		all.Wait()
		_, err := kv.Put(t.Context(), "k", "w")
		require.ErrorIs(t, err, errClosed)
		require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(err))
		lanes := clienttest.Get(t, kv, DefaultPrefix, clientv3.WithPrefix())
		require.Zero(t, lanes.Count)
		require.Equal(t, 1, cluster.Count("LeaseRevoke"))
	})
}

// TestGroup lets writes of many callers be one write of a lane, through package batch.
func TestGroup(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		grouped := batch.New(kv, batch.Config{GroupWrites: true, MaxAlone: 1})
		release := make(chan struct{})
		cluster.Once("Txn", func(c *fakeetcd.Call) { _ = c.Hold(release) })
		cluster.Once("Txn", answerLost)
		var all sync.WaitGroup
		all.Go(func() { _, err := grouped.Put(t.Context(), "blocker", ""); assert.NoError(t, err) })
		synctest.Wait()
		before := cluster.Count("Txn")
		for i := range 100 {
			all.Go(func() {
				resp, err := grouped.Put(t.Context(), fmt.Sprint("k", i), "v", clientv3.WithPrevKV())
				if assert.NoError(t, err) {
					assert.NotZero(t, resp.Header.Revision)
				}
			})
		}
		synctest.Wait()
		close(release)
		all.Wait()
		for i := range 100 {
			require.Equal(t, 1, cluster.PutCount(fmt.Sprint("k", i)))
		}
		require.LessOrEqual(t, cluster.Count("Txn")-before, 5)
	})
}

// TestManyWritersUnderFaults counts in a key, with comparisons, while requests and answers are lost: each success is one
// increment, and no failure is.
func TestManyWritersUnderFaults(t *testing.T) {
	inBubble(t, Config{Lanes: 4}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		cluster.On("Txn", func(c *fakeetcd.Call) {
			switch c.Number % 7 {
			case 2:
				answerLost(c)
			case 3:
				requestLost(c)
			case 5:
				executedWithError(c)
			}
		})
		clienttest.Must(kv.Put(t.Context(), "counter", "0"))
		const callers, each = 8, 10
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for n := 0; n < each; {
					now, err := kv.Get(t.Context(), "counter")
					if !assert.NoError(t, err) {
						return
					}
					count, _ := strconv.Atoi(string(now.Kvs[0].Value))
					resp, err := kv.Txn(t.Context()).
						If(clientv3.Compare(clientv3.ModRevision("counter"), "=", now.Kvs[0].ModRevision)).
						Then(clientv3.OpPut("counter", strconv.Itoa(count+1)), clientv3.OpPut(fmt.Sprintf("done/%d/%d", i, n), "")).Commit()
					if !assert.NoError(t, err) {
						return
					}
					if resp.Succeeded {
						n++
					}
				}
			})
		}
		all.Wait()
		require.Equal(t, strconv.Itoa(callers*each), string(cluster.Get("counter").Value))
		require.Equal(t, callers*each+1, cluster.PutCount("counter"))
		done := clienttest.Get(t, kv, "done/", clientv3.WithPrefix())
		for _, k := range done.Kvs {
			require.EqualValues(t, 1, k.Version, strings.TrimPrefix(string(k.Key), "done/"))
		}
	})
}

func TestMetrics(t *testing.T) {
	inBubble(t, Config{Lanes: 3}, func(t *testing.T, cluster *fakeetcd.Cluster, kv *KV) {
		values := func() map[string]int {
			all := map[string]int{}
			for _, m := range kv.Metrics() {
				name := m.Name
				for _, label := range m.Labels {
					name += " " + label.Value
				}
				all[name] = int(m.Value)
			}
			return all
		}
		before := values() // New has tried a lane
		clienttest.Must(kv.Put(t.Context(), "k", "v"))
		cluster.Once("Txn", func(c *fakeetcd.Call) {
			require.Equal(t, 1, values()["quorate.idempotent.lanes"])
			answerLost(c)
		})
		clienttest.Must(kv.Put(t.Context(), "k", "v2"))
		after := values()
		require.Equal(t, 2, after["quorate.idempotent.writes executed"]-before["quorate.idempotent.writes executed"])
		require.Equal(t, 1, after["quorate.idempotent.settled"])
		require.Zero(t, after["quorate.idempotent.writes unknown"])
		require.Equal(t, 1, after["quorate.idempotent.leases"])
		require.Equal(t, 3, after["quorate.idempotent.lane_limit"])
		require.Zero(t, after["quorate.idempotent.lanes"])
		require.NoError(t, kv.Close())
		require.Zero(t, values()["quorate.idempotent.lanes"], "after Close")
	})
}
