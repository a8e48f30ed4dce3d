package clientv3_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

const (
	// stormClients share nothing.
	stormClients = 100
	stormOutage  = 12 * time.Second
	stormReturn  = 4400 * time.Millisecond // is observed after the election
)

// stormClient has a watch and a lease, and makes a get each second.
type stormClient struct {
	served atomic.Pointer[time.Time] // the first get answered since it was last nil
	watch  WatchChan
	lease  <-chan *LeaseKeepAliveResponse
}

// startStorm starts clients that use the cluster until the context ends.
func startStorm(t *testing.T, ctx context.Context, cluster *fakeetcd.Cluster) []*stormClient {
	t.Helper()
	var work sync.WaitGroup
	t.Cleanup(work.Wait)
	clients := make([]*stormClient, stormClients)
	for i := range clients {
		c, err := New(Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop()})
		require.NoError(t, err)
		work.Go(func() {
			<-ctx.Done()
			_ = c.Close() // it has no more to say
		})
		sc := &stormClient{watch: c.Watch(ctx, "k", WithCreatedNotify()), lease: keepAlive(t, ctx, c, grant(t, c))}
		created, ok := next(t, sc.watch)
		require.True(t, ok && created.Created)
		work.Go(func() { sc.makeGets(ctx, c) })
		clients[i] = sc
	}
	return clients
}

// makeGets makes a get each second, which does not wait for the one before.
func (sc *stormClient) makeGets(ctx context.Context, c *Client) {
	var gets sync.WaitGroup
	defer gets.Wait()
	for wait := rand.N(time.Second); ; wait = time.Second {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		gets.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			if _, err := c.Get(ctx, "k"); err == nil {
				now := time.Now()
				sc.served.CompareAndSwap(nil, &now)
			}
		})
	}
}

// delayElection makes members without a leader answer linearizable reads as etcd does: once there
// is one, they have to be made again.
func delayElection(cluster *fakeetcd.Cluster) (lose, elect func()) {
	var next atomic.Pointer[chan struct{}] // closed by the election; nil while there is a leader
	cluster.On("Range", func(call *fakeetcd.Call) {
		elected := next.Load()
		if elected == nil {
			return
		}
		select {
		case <-*elected:
		case <-call.Context().Done():
		}
		call.Answer(nil, rpctypes.ErrGRPCLeaderChanged)
	})
	lose = func() {
		elected := make(chan struct{})
		next.Store(&elected)
		cluster.SetLeader(nil)
	}
	return lose, func() {
		cluster.SetLeader(cluster.Member(1))
		close(*next.Swap(nil))
	}
}

// series is a count at the end of each tenth of a second.
type series []int

// busiest returns by how much it has grown in a second at most, for each client.
func (s series) busiest() (most float64) {
	for i := range s[:len(s)-10] {
		most = max(most, float64(s[i+10]-s[i])/stormClients)
	}
	return most
}

// total returns by how much it has grown, for each client.
func (s series) total() float64 { return float64(s[len(s)-1]-s[0]) / stormClients }

// When all members are back after an outage, a fleet does not send everything at once, nor opens
// streams that must fail: members that have just started have no leader.
func TestFleetReturns(t *testing.T) {
	for _, election := range []time.Duration{600 * time.Millisecond, 6 * time.Second} {
		t.Run(election.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { returnOfAFleet(t, election) })
		})
	}
}

// returnOfAFleet has all members start at once, and elect a leader after that time.
func returnOfAFleet(t *testing.T, election time.Duration) {
	t.Helper()
	cluster := clienttest.Start(t, 3)
	lose, elect := delayElection(cluster)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	clients := startStorm(t, ctx, cluster)
	time.Sleep(30 * time.Second)
	for _, m := range cluster.Members() {
		m.Stop()
	}
	lose()
	time.Sleep(stormOutage)
	for _, c := range clients {
		c.served.Store(nil)
	}
	for _, m := range cluster.Members() {
		m.Start()
	}
	back := time.Now()
	time.AfterFunc(election, elect)
	var all, streams series
	for time.Since(back) < election+stormReturn {
		opened := 0
		for _, method := range idleStreams {
			opened += cluster.Count(method)
		}
		all, streams = append(all, cluster.Count("*")), append(streams, opened)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
	t.Logf("in the busiest second each client sends %.2f RPCs, and opens %.2f streams; %.2f in all",
		all.busiest(), streams.busiest(), streams.total())
	assert.LessOrEqual(t, all.busiest(), 7.5)
	assert.LessOrEqual(t, streams.busiest(), 1.7)
	assert.LessOrEqual(t, streams.total(), 2.2, "each stream is opened about once")
	rev := put(t, cluster, "k", 1)
	synctest.Wait()
	for _, c := range clients {
		require.NotNil(t, c.served.Load())
		assert.LessOrEqual(t, c.served.Load().Sub(back), election+2900*time.Millisecond)
		requireRevs(t, c.watch, rev, rev)
		requireAlive(t, c.lease)
	}
}

// A member that freezes within the length of an outage after it costs reads 0.7 s, not 20 ms: no read is hedged then.
func TestMemberFreezesAfterAnOutage(t *testing.T) {
	for after, longest := range map[time.Duration]time.Duration{2 * time.Second: 700 * time.Millisecond, 11 * time.Second: 30 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 3)
			slowest := func(length time.Duration) (longest time.Duration) {
				for began := time.Now(); time.Since(began) < length; time.Sleep(5 * time.Millisecond) {
					sent := time.Now()
					_, err := c.Get(t.Context(), "k")
					require.NoError(t, err)
					longest = max(longest, time.Since(sent))
				}
				return longest
			}
			slowest(30 * time.Second)
			for _, m := range cluster.Members() {
				m.Stop()
			}
			time.AfterFunc(stormOutage, func() {
				for _, m := range cluster.Members() {
					m.Start()
				}
			})
			require.Greater(t, slowest(time.Second), stormOutage, "the outage is over")
			slowest(after)
			cluster.Member(2).Freeze()
			assert.LessOrEqual(t, slowest(10*time.Second), longest)
		})
	}
}
