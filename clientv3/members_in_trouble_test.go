package clientv3_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/observe/introspect"
	"github.com/quorate/quorate/retry"
)

// refuseGets makes the first member refuse all gets.
func refuseGets(cluster *fakeetcd.Cluster, err error) {
	cluster.On("Range", func(call *fakeetcd.Call) {
		if call.Member == cluster.Member(0) {
			call.Answer(nil, err)
		}
	})
}

// meetAll waits until the client has a connection to every member. Before that, it
// has no choice between them.
func meetAll(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
	t.Helper()
	met := map[*fakeetcd.Member]bool{}
	for ; len(met) < len(cluster.Members()); time.Sleep(5 * time.Millisecond) {
		clienttest.Get(t, c, "k")
		for _, call := range cluster.Calls("Range") {
			met[call.Member] = true
		}
	}
}

// One member that refuses every call delays the callers that use it only briefly: it is not an
// outage for which calls must wait.
func TestOneBadMemberDelaysOthersBriefly(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		refuseGets(cluster, rpctypes.ErrGRPCNoLeader)
		for range 400 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			start := time.Now()
			_, err := c.Get(ctx, "k")
			cancel()
			require.NoError(t, err)
			// A throttled call waits half a second at least.
			require.Less(t, time.Since(start), 400*time.Millisecond)
		}
	})
}

// A stream on a bare connection detects a stale token too.
func TestRawStreamRenewsTheToken(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	root := rootClient(t, cluster, c)
	snapshot := func() error {
		stream, err := pb.NewMaintenanceClient(root.ActiveConnection()).Snapshot(t.Context(), &pb.SnapshotRequest{})
		require.NoError(t, err)
		_, err = stream.Recv()
		return err
	}
	require.NoError(t, snapshot())
	cluster.InvalidateTokens()
	require.Equal(t, codes.Unauthenticated, status.Code(snapshot()), "gRPC's semantics: a raw stream is not retried")
	require.NoError(t, snapshot(), "but the next one has a new token")
	assert.Equal(t, 2, cluster.Count("Authenticate"))
}

// An endpoint that is not an etcd server, but a web server at its address, or a proxy that does not reach
// its server, is detected by its first responses. Only writes that a proxy may have passed on fail.
func TestEndpointThatIsNotEtcd(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		put  func(error) bool
	}{
		{"web server", status.Error(codes.PermissionDenied, "unexpected HTTP status code received from server: 403 (Forbidden)"), func(err error) bool { return err == nil }},
		{
			"proxy without a server", status.Error(codes.Unavailable, "unexpected HTTP status code received from server: 502 (Bad Gateway)"),
			func(err error) bool { return err == nil || retry.OutcomeOf(err) == retry.OutcomeUnknown },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
				meetAll(t, cluster, c)
				var asked atomic.Int64
				web := cluster.Member(0)
				for _, method := range []string{"Range", "Put", "LeaseGrant", "Watch"} {
					cluster.On(method, func(call *fakeetcd.Call) {
						if call.Member == web {
							asked.Add(1)
							call.Answer(nil, tt.err)
						}
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				for range 100 {
					_, err := c.Put(ctx, "k", "v")
					require.True(t, tt.put(err), "%v", err)
					_, err = c.Get(ctx, "k")
					require.NoError(t, err)
					_, err = c.Grant(ctx, 10)
					require.NoError(t, err)
					time.Sleep(time.Millisecond) // an error is no evidence if work that began later is done
				}
				assert.LessOrEqual(t, asked.Load(), int64(20), "a third of all calls went there")
				watch := <-c.Watch(ctx, "k", WithRev(1))
				require.NoError(t, watch.Err())
			})
		})
	}
}

// Where one endpoint is all there is, its errors end no backoff: nothing has improved between two of them.
func TestRetriesAtASingleEndpointBackOff(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		err := status.Error(codes.Unavailable, "unexpected HTTP status code received from server: 503 (Service Unavailable)")
		refuseGets(cluster, err)
		var readers sync.WaitGroup
		for range 50 {
			readers.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_, err := c.Get(ctx, "k")
				assert.Error(t, err)
			})
			time.Sleep(7 * time.Millisecond) // none begins together with another
		}
		readers.Wait()
		assert.LessOrEqual(t, cluster.Count("Range"), 50*6)
	})
}

// A member that completes nothing may be alive: its writes go on until Config.WriteStallTimeout, 2 s. One without a
// sign of life is dead, and its writes end.
func TestAStalledMemberIsNotDead(t *testing.T) {
	for want, fault := range map[string]func(*fakeetcd.Cluster, *fakeetcd.Member){
		"lagging": func(cluster *fakeetcd.Cluster, member *fakeetcd.Member) {
			for _, method := range []string{"Range", "Put", "Status"} {
				cluster.On(method, func(call *fakeetcd.Call) {
					if call.Member == member {
						<-call.Context().Done()
					}
				})
			}
		},
		"dead": func(_ *fakeetcd.Cluster, member *fakeetcd.Member) { member.Freeze() },
	} {
		t.Run(want, func(t *testing.T) {
			clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
				meetAll(t, cluster, c)
				time.Sleep(time.Millisecond) // what was completed is older than the writes
				fault(cluster, cluster.Member(0))
				defer cluster.Member(0).Continue()
				ctx, cancel := context.WithTimeout(t.Context(), 1900*time.Millisecond)
				defer cancel()
				var writes sync.WaitGroup
				var cut atomic.Int64
				for range 100 { // a part is for the member
					writes.Go(func() {
						if _, err := c.Put(ctx, "k", "v"); err != nil && ctx.Err() == nil {
							cut.Add(1)
						}
					})
				}
				writes.Wait()
				assert.Equal(t, want, c.Introspect(introspect.Options{}).Endpoints[0].State)
				assert.Equal(t, want == "dead", cut.Load() > 0, "writes that ended early")
			})
		})
	}
}

// outage is how long all members are stopped.
const outage = 12 * time.Second

// A member that freezes within the length of an outage after it costs reads 0.7 s, not 20 ms: no read is hedged then. The calls of
// this client have earned probes by then; with 40 calls a second a read would wait until the time is over.
func TestSimulatedMemberFreezesAfterAnOutage(t *testing.T) {
	for after, longest := range map[time.Duration]time.Duration{2 * time.Second: 700 * time.Millisecond, 11 * time.Second: 30 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 3)
			const often = 5 * time.Millisecond
			slowest := func(length, pause time.Duration) (longest time.Duration) {
				for began := time.Now(); time.Since(began) < length; time.Sleep(pause) {
					sent := time.Now()
					_, err := c.Get(t.Context(), "k")
					require.NoError(t, err)
					longest = max(longest, time.Since(sent))
				}
				return longest
			}
			slowest(10*time.Second, 25*time.Millisecond)
			for _, m := range cluster.Members() {
				m.Stop()
			}
			time.AfterFunc(outage, func() {
				for _, m := range cluster.Members() {
					m.Start()
				}
			})
			require.Greater(t, slowest(time.Second, often), outage, "the outage is over")
			slowest(after, often)
			cluster.Member(2).Freeze()
			assert.LessOrEqual(t, slowest(time.Second, often), longest)
		})
	}
}

// A client without calls learns by a probe that an endpoint serves again: all try to connect within 4.2 s then.
func TestWatchAloneResumesAfterAnOutage(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		watch := c.Watch(t.Context(), "k", WithCreatedNotify())
		_, ok := next(t, watch)
		require.True(t, ok)
		for _, m := range cluster.Members() {
			m.Stop()
		}
		time.Sleep(outage)
		for _, m := range cluster.Members() {
			m.Start()
		}
		back := time.Now()
		rev := clienttest.Put(t, cluster, "k", "v")
		requireRevs(t, watch, rev, rev)
		assert.LessOrEqual(t, time.Since(back), 6*time.Second)
	})
}
