package channel

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/health"
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

func openWatch(t *testing.T, c *Channel) context.CancelFunc {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ws, err := pb.NewWatchClient(c.Streams()).Watch(ctx, grpc.WaitForReady(true))
	require.NoError(t, err)
	require.NoError(t, ws.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")},
	}}))
	_, err = ws.Recv()
	require.NoError(t, err)
	return cancel
}

// A member answers a request that was lost with the old leader after seven seconds, with an error.
// It serves all others: no connection is closed, and no write is cut.
func TestTimedOutRequestClosesNothing(t *testing.T) {
	for _, latency := range []time.Duration{10 * time.Millisecond, 60 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, w *witness) {
				cluster.On("*", func(call *fakeetcd.Call) {
					if call.Method != "Watch" {
						time.Sleep(latency/2 + rand.N(latency+1))
					}
				})
				for range 60 {
					require.NoError(t, putK(t, c, time.Minute))
				}
				before := dials(cluster)
				cluster.Once("LeaseGrant", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCTimeoutDueToLeaderFail) })
				time.AfterFunc(500*time.Millisecond, func() {
					_, _ = pb.NewLeaseClient(c).LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 10}, grpc.WaitForReady(true))
				})
				_, failed := during(2*time.Second, 12, func() error { return putK(t, c, 10*time.Second) })
				assert.Zero(t, failed)
				assert.Equal(t, before, dials(cluster))
				assert.Empty(t, w.unknown)
			})
		})
	}
}

// stallMember makes a member hold reads and writes until the given time.
func stallMember(cluster *fakeetcd.Cluster, m *fakeetcd.Member, until time.Time) {
	for _, method := range []string{"Range", "Put"} {
		cluster.On(method, func(call *fakeetcd.Call) {
			if call.Member == m {
				time.Sleep(time.Until(until))
			}
		})
	}
}

// putsDuringStall has 60 puts in flight when a member stalls, and returns how many fail and how
// long the first failure took.
func putsDuringStall(t *testing.T, stall time.Duration) (failed int64, after time.Duration) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *witness) {
		begin := time.Now()
		stallMember(cluster, cluster.Member(0), begin.Add(stall))
		var bad, first atomic.Int64
		var wg sync.WaitGroup
		for range 60 {
			wg.Go(func() {
				if putK(t, c, time.Minute) != nil {
					bad.Add(1)
					first.CompareAndSwap(0, int64(time.Since(begin)))
				}
			})
		}
		wg.Go(func() { during(stall, 1, func() error { time.Sleep(5 * time.Millisecond); return readK(t, c) }) })
		wg.Wait()
		failed, after = bad.Load(), time.Duration(first.Load())
	})
	return failed, after
}

func TestWritesSurviveAShortStall(t *testing.T) {
	for _, stall := range []time.Duration{400, 700, 1000, 1500, 1900} {
		failed, after := putsDuringStall(t, stall*time.Millisecond)
		assert.Zero(t, failed, "stall of %d ms: the first after %v", stall, after)
	}
}

func TestWritesOfAStalledMemberAreCut(t *testing.T) {
	failed, after := putsDuringStall(t, 6*time.Second)
	assert.InDelta(t, 20, failed, 3, "a third of 60")
	assert.GreaterOrEqual(t, after, 2*time.Second)
	assert.Less(t, after, 3*time.Second)
}

// Without a quorum no verdict is possible, and probes back off.
func TestProbesWithoutLeaderBackOff(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *witness) {
		defer openWatch(t, c)()
		cluster.On("Status", func(call *fakeetcd.Call) {
			call.Answer(&pb.StatusResponse{Header: &pb.ResponseHeader{MemberId: call.Member.ID()}}, nil)
		})
		for _, m := range []string{"Range", "Put"} {
			cluster.On(m, func(call *fakeetcd.Call) {
				if call.Hold(nil) != nil {
					call.Answer(nil, rpctypes.ErrGRPCTimeout)
				}
			})
		}
		seen := newReceived(cluster)
		calls, _ := during(time.Minute, 1, func() error { return putK(t, c, time.Second) })
		assert.LessOrEqual(t, seen.probes(), 30)
		assert.LessOrEqual(t, float64(seen.calls()), 1.2*float64(calls))
	})
}

// All members take five times as long as their callers' deadlines: none is ejected, and retries,
// hedges and probes add no load.
func TestOverloadIsNotAmplified(t *testing.T) {
	for _, deadline := range []time.Duration{50 * time.Millisecond, 250 * time.Millisecond} {
		t.Run(deadline.String(), func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, w *witness) {
				defer openWatch(t, c)()
				before := dials(cluster)
				slow := cluster.On("*", func(call *fakeetcd.Call) {
					if call.Method != "Watch" {
						time.Sleep(4*deadline + rand.N(2*deadline))
					}
				})
				seen := newReceived(cluster)
				calls, failed := during(time.Minute, 10, func() error {
					ctx, cancel := context.WithTimeout(t.Context(), deadline)
					defer cancel()
					_, err := pb.NewKVClient(c).Range(ctx, &pb.RangeRequest{Key: []byte("k")}, grpc.WaitForReady(true))
					time.Sleep(deadline)
					return err
				})
				require.Equal(t, calls, failed)
				assert.LessOrEqual(t, float64(seen.calls()), 1.2*float64(calls))
				// 2 % of the calls pay for probes.
				assert.LessOrEqual(t, float64(seen.probes()), 30+0.02*float64(calls))
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

// The begin of an overload does not double the load of clients with few calls.
func TestOverloadBeginsWithoutABurst(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, w *witness) {
		defer openWatch(t, c)()
		cluster.On("*", func(call *fakeetcd.Call) {
			if call.Method != "Watch" {
				time.Sleep(time.Second)
			}
		})
		seen := newReceived(cluster)
		calls, _ := during(12*time.Second, 1, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := pb.NewKVClient(c).Range(ctx, &pb.RangeRequest{Key: []byte("k")}, grpc.WaitForReady(true))
			time.Sleep(800 * time.Millisecond)
			return err
		})
		assert.LessOrEqual(t, seen.calls(), int(calls)+3, "hedges")
		assert.LessOrEqual(t, seen.probes(), 4+12/4+1)
	})
}

// A distant member is not probed for ever.
func TestSlowMemberIsProbedSeldom(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *witness) {
		slow := cluster.Member(2)
		cluster.On("*", func(call *fakeetcd.Call) {
			if call.Member == slow && call.Method != "Watch" {
				time.Sleep(150 * time.Millisecond)
			}
		})
		for range 120 {
			require.NoError(t, readK(t, c))
		}
		slow.Stop()
		time.Sleep(50 * time.Millisecond)
		slow.Start()
		time.Sleep(10 * time.Second)
		seen := newReceived(cluster)
		during(time.Minute, 1, func() error { time.Sleep(100 * time.Millisecond); return readK(t, c) })
		assert.LessOrEqual(t, seen.probes(), 20)
	})
}

// A single endpoint is not probed.
func TestSingleEndpointIsNotProbed(t *testing.T) {
	for _, slow := range []time.Duration{400 * time.Millisecond, 2 * time.Second} {
		t.Run(fmt.Sprint(slow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, err := fakeetcd.Start(1)
				require.NoError(t, err)
				defer cluster.Close()
				c, err := New(Config{
					Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(),
					Login: func() Login { return Login{} }, Logger: zap.NewNop,
				})
				require.NoError(t, err)
				defer func() { _ = c.Close() }()
				for range 60 {
					require.NoError(t, readK(t, c))
				}
				cluster.On("*", func(*fakeetcd.Call) { time.Sleep(slow) })
				seen := newReceived(cluster)
				during(30*time.Second, 2, func() error { return putK(t, c, 250*time.Millisecond) })
				assert.Zero(t, seen.probes())
			})
		})
	}
}

// A listing is not hedged: its size is unknown.
func TestLargeRangesAreNotHedged(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, w *witness) {
		var executed atomic.Int64
		cluster.On("Range", func(call *fakeetcd.Call) {
			if r := call.Request.(*pb.RangeRequest); string(r.Key) == "big" {
				time.Sleep(1200 * time.Millisecond)
				executed.Add(1)
			}
		})
		list := func(key string) {
			_, err := pb.NewKVClient(c).Range(t.Context(), &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte("z")}, grpc.WaitForReady(true))
			require.NoError(t, err)
		}
		for range 5 {
			for range 99 {
				list("small")
			}
			list("big")
		}
		assert.EqualValues(t, 5, executed.Load())
		assert.Empty(t, w.sent)
	})
}

// A bulk transfer continues after its endpoint is removed, for as long as it takes.
func TestSnapshotOutlivesTheRemovalOfItsEndpoint(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, w *witness) {
		cluster.On("Snapshot", func(call *fakeetcd.Call) {
			for range 120 {
				if call.Send(&pb.SnapshotResponse{Blob: make([]byte, 1024)}) != nil {
					return
				}
				time.Sleep(time.Second)
			}
			call.Answer(nil, nil)
		})
		s, err := pb.NewMaintenanceClient(c).Snapshot(t.Context(), &pb.SnapshotRequest{}, grpc.WaitForReady(true))
		require.NoError(t, err)
		_, err = s.Recv()
		require.NoError(t, err)
		w.mu.Lock()
		from := w.picks[len(w.picks)-1].Endpoint
		w.mu.Unlock()
		var rest []string
		for _, ep := range cluster.Endpoints() {
			if ep != from {
				rest = append(rest, ep)
			}
		}
		c.SetEndpoints(rest)
		messages := 1
		for ; err == nil; messages++ {
			_, err = s.Recv()
		}
		assert.Equal(t, 121, messages, "%v", err)
		for _, ep := range c.Statuses() {
			assert.NotEqual(t, health.Draining, ep.State)
		}
	})
}
