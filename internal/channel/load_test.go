package channel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
)

// These tests bound the load of a client on a cluster under a fault.

func putK(t *testing.T, c *Channel, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	_, err := pb.NewKVClient(c).Put(ctx, &pb.PutRequest{Key: []byte("k")}, grpc.WaitForReady(true))
	return err
}

// during runs callers whose calls take some time, for the given duration, and returns the number
// of calls and of failures.
func during(length time.Duration, callers int, call func() error) (calls, failed int64) {
	var made, bad atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(length)
	for range callers {
		wg.Go(func() {
			for time.Now().Before(end) {
				made.Add(1)
				if call() != nil {
					bad.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return made.Load(), bad.Load()
}

// received counts the requests that the members of a cluster received.
type received struct {
	cluster *fakeetcd.Cluster
	before  [2]int // probes, others
}

func newReceived(cluster *fakeetcd.Cluster) *received {
	r := &received{cluster: cluster}
	r.before[0], r.before[1] = r.count()
	return r
}

func (r *received) count() (probes, others int) {
	probes = r.cluster.Count("Status") + r.cluster.Count("Check")
	for _, call := range r.cluster.Calls("Range") {
		if string(call.Request().(*pb.RangeRequest).GetKey()) == "\x00quorate-probe" {
			probes++
		} else {
			others++
		}
	}
	return probes, others + r.cluster.Count("Put")
}

func (r *received) probes() int { n, _ := r.count(); return n - r.before[0] }
func (r *received) calls() int  { _, n := r.count(); return n - r.before[1] }

func dials(cluster *fakeetcd.Cluster) (n []int) {
	for _, m := range cluster.Members() {
		n = append(n, m.Dials())
	}
	return n
}

// All members take five times as long as their callers' deadlines: none is ejected, and retries,
// hedges and probes add no load.
func TestSimulatedOverloadIsNotAmplified(t *testing.T) {
	for _, deadline := range []time.Duration{50 * time.Millisecond, 250 * time.Millisecond} {
		t.Run(deadline.String(), func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, w *recorder) {
				must(watch(t.Context(), c.Streams()))
				before := dials(cluster)
				slow := cluster.On("*", func(call *fakeetcd.Call) {
					if call.Method != "Watch" {
						time.Sleep(4*deadline + rand.N(2*deadline))
					}
				})
				seen := newReceived(cluster)
				calls, failed := during(20*time.Second, 5, func() error {
					ctx, cancel := context.WithTimeout(t.Context(), deadline)
					defer cancel()
					_, err := pb.NewKVClient(c).Range(ctx, &pb.RangeRequest{Key: []byte("k")}, grpc.WaitForReady(true))
					time.Sleep(deadline)
					return err
				})
				require.Equal(t, calls, failed)
				assert.LessOrEqual(t, float64(seen.calls()), 1.2*float64(calls))
				// 2 % of the calls pay for probes.
				assert.LessOrEqual(t, float64(seen.probes()), 18+0.02*float64(calls))
				assert.Equal(t, before, dials(cluster))
				assert.Empty(t, w.ejected)

				slow.Remove()
				time.Sleep(2 * time.Second)
				_, failed = during(time.Second, 1, func() error { time.Sleep(10 * time.Millisecond); return readK(t, c) })
				assert.Zero(t, failed)
				for _, s := range c.Statuses() {
					assert.True(t, s.State.Usable(), "%v", s.State)
				}
			})
		})
	}
}

// A single endpoint is not probed.
func TestSingleEndpointIsNotProbed(t *testing.T) {
	for _, slow := range []time.Duration{400 * time.Millisecond, 2 * time.Second} {
		grpctest.Bubble(t, fmt.Sprint(slow), func(t *testing.T) {
			cluster := startCluster(t, 1)
			c := newTestChannel(t, Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions()})
			for range 60 {
				require.NoError(t, readK(t, c))
			}
			cluster.On("*", func(*fakeetcd.Call) { time.Sleep(slow) })
			seen := newReceived(cluster)
			during(30*time.Second, 2, func() error { return putK(t, c, 250*time.Millisecond) })
			assert.Zero(t, seen.probes())
		})
	}
}

// HAProxy refuses streams of writes that the server has executed. gRPC would send them again.
func TestRefusedWriteIsNotSentAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *recorder) {
		refuse := func(call *fakeetcd.Call) {
			_, _ = call.Execute()
			call.ResetStream(fakeetcd.ResetRefused)
		}
		cluster.Once("Put", refuse)
		puts := cluster.PutCount("k")
		isUnknown(codes.Unavailable)(t, put(t.Context(), c))
		assert.Equal(t, puts+1, cluster.PutCount("k"))
		require.NoError(t, put(t.Context(), c))

		cluster.Once("Range", refuse)
		require.NoError(t, readK(t, c))

		var ambiguous atomic.Bool
		cluster.Once("LeaseRevoke", refuse)
		require.Error(t, c.Invoke(t.Context(), pb.Lease_LeaseRevoke_FullMethodName, &pb.LeaseRevokeRequest{ID: 7}, &pb.LeaseRevokeResponse{}, ReportAmbiguous(&ambiguous)))
		assert.True(t, ambiguous.Load(), "the server executed it, and gRPC would send it again")
	})
}

// freezeTwo freezes two members of three. The third serves local reads, and says that it has no
// leader once it knows. thaw ends it.
func freezeTwo(cluster *fakeetcd.Cluster, electionTimeout time.Duration) (thaw func()) {
	thawed := make(chan struct{})
	lost := time.Now().Add(electionTimeout)
	for _, method := range []string{"Range", "Put", "Status", "Check"} {
		cluster.On(method, func(call *fakeetcd.Call) {
			r, isRange := call.Request.(*pb.RangeRequest)
			switch {
			case call.Member != cluster.Member(2):
				<-thawed
				call.Answer(nil, errDead)
			case method == "Put", isRange && !r.GetSerializable():
				select {
				case <-time.After(time.Until(lost)):
					call.Answer(nil, rpctypes.ErrGRPCNoLeader)
				case <-call.Context().Done():
					call.Answer(nil, call.Context().Err())
				}
			}
		})
	}
	return func() { close(thawed) }
}

// Serializable reads go on at the member that can answer them while two of three are frozen.
func TestSimulatedLocalReadsGoOnWithoutQuorum(t *testing.T) {
	get := &pb.RangeRequest{Key: []byte("k"), Serializable: true}
	all := &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("z"), Serializable: true}
	for name, tt := range map[string]struct {
		reads []*pb.RangeRequest // a caller each
		puts  int                // callers
		gap   time.Duration      // a single caller may meet both frozen members
	}{
		"one caller that gets":                  {[]*pb.RangeRequest{get}, 0, 2500 * time.Millisecond},
		"one caller whose reads are not hedged": {[]*pb.RangeRequest{all}, 0, 2500 * time.Millisecond},
		"callers of every kind, beside puts":    {[]*pb.RangeRequest{get, all, get, all, get, all}, 6, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *recorder) {
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				defer wg.Wait()
				defer cancel()
				kv := pb.NewKVClient(c)
				for range tt.puts {
					wg.Go(func() {
						for ctx.Err() == nil {
							call, end := context.WithTimeout(ctx, 10*time.Second)
							_, _ = kv.Put(call, &pb.PutRequest{Key: []byte("k")}, grpc.WaitForReady(true))
							end()
							time.Sleep(50 * time.Millisecond)
						}
					})
				}
				var mu sync.Mutex
				var gap time.Duration // without a read
				done, latest := 0, time.Now()
				for _, r := range tt.reads {
					wg.Go(func() {
						for ctx.Err() == nil {
							_, err := kv.Range(ctx, r, grpc.WaitForReady(true))
							mu.Lock()
							gap = max(gap, time.Since(latest))
							if ctx.Err() == nil {
								assert.NoError(t, err)
								done++
								latest = time.Now()
							}
							mu.Unlock()
							time.Sleep(50 * time.Millisecond)
						}
					})
				}
				time.Sleep(500 * time.Millisecond)
				defer freezeTwo(cluster, 1500*time.Millisecond)()
				time.Sleep(15 * time.Second)
				cancel()
				wg.Wait()
				t.Logf("%d reads, and none for %v", done, gap)
				assert.LessOrEqual(t, gap, tt.gap)
				assert.Greater(t, done, 200*len(tt.reads))
			})
		})
	}
}
