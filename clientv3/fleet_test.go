package clientv3_test

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// Clients share nothing, so the cost of idleClients is scaled up to a population of
// idlePopulation. More clients would need more goroutines than the race detector supports.
const (
	idleClients    = 60
	idlePopulation = 10_000
)

// idleStreams are the methods of the two streams of each idle client.
var idleStreams = []string{pb.Watch_Watch_FullMethodName, pb.Lease_LeaseKeepAlive_FullMethodName}

// idleClient has one watch, of a key that is never written, and one lease.
type idleClient struct {
	watch WatchChan
	lease <-chan *LeaseKeepAliveResponse
}

// startIdle starts clients over the time between two renewals of a lease, as real programs do not
// start at the same instant.
func startIdle(t *testing.T, cluster *fakeetcd.Cluster) []idleClient {
	t.Helper()
	clients := make([]idleClient, idleClients)
	for i := range clients {
		c := clienttest.Connect(t, cluster)
		watch := c.Watch(t.Context(), "k", WithCreatedNotify())
		created, ok := next(t, watch)
		require.True(t, ok && created.Created)
		clients[i] = idleClient{watch: watch, lease: keepAlive(t, t.Context(), c, grant(t, c))}
		time.Sleep(leaseTTL * time.Second / 3 / idleClients)
	}
	return clients
}

// streamBook records the watch and keepalive streams at the members.
type streamBook struct {
	mu sync.Mutex
	// open counts the streams at each member, and opened has the times of openings since the last
	// reset, by method.
	open   map[*fakeetcd.Member]int
	opened map[string][]time.Time
	// renewed has the last renewal of each lease, and apart the longest time between two renewals
	// of the same lease.
	renewed map[int64]time.Time
	apart   time.Duration
}

func keepStreamBook(cluster *fakeetcd.Cluster) *streamBook {
	b := &streamBook{
		open: make(map[*fakeetcd.Member]int), opened: make(map[string][]time.Time), renewed: make(map[int64]time.Time),
	}
	for _, method := range idleStreams {
		cluster.On(method, func(call *fakeetcd.Call) {
			b.begin(call)
			defer b.end(call)
			call.OnSend(b.sent)
			_, _ = call.Execute()
		})
	}
	return b
}

func (b *streamBook) begin(call *fakeetcd.Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[call.Member]++
	b.opened[call.Method] = append(b.opened[call.Method], time.Now())
}

func (b *streamBook) end(call *fakeetcd.Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[call.Member]--
}

func (b *streamBook) sent(resp proto.Message) bool {
	renewal, ok := resp.(*pb.LeaseKeepAliveResponse)
	if !ok {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if last, known := b.renewed[renewal.ID]; known {
		b.apart = max(b.apart, time.Since(last))
	}
	b.renewed[renewal.ID] = time.Now()
	return true
}

// forgetOpened starts a new list of openings, and returns how many streams are open now.
func (b *streamBook) forgetOpened() map[*fakeetcd.Member]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.opened)
	return maps.Clone(b.open)
}

func (b *streamBook) openings() map[string][]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.opened)
}

// requireRenewed checks that no lease waited for its renewal for longer than its TTL.
func (b *streamBook) requireRenewed(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Len(t, b.renewed, idleClients)
	for _, last := range b.renewed {
		b.apart = max(b.apart, time.Since(last))
	}
	require.Less(t, b.apart, leaseTTL*time.Second)
}

// costs returns what each member was asked so far: each call counts, probes included, and
// each request on a stream. The answer is part of what it answers.
func costs(cluster *fakeetcd.Cluster) map[*fakeetcd.Member]int {
	asked := make(map[*fakeetcd.Member]int)
	for _, call := range cluster.Calls() {
		asked[call.Member]++
		if slices.Contains(idleStreams, call.Method) {
			asked[call.Member] += len(call.Requests)
		}
	}
	return asked
}

// rates lets time pass, and returns what the members are asked in a second by a whole
// population.
func rates(cluster *fakeetcd.Cluster, d time.Duration) map[*fakeetcd.Member]float64 {
	before := costs(cluster)
	time.Sleep(d)
	rates := make(map[*fakeetcd.Member]float64)
	for m, asked := range costs(cluster) {
		rates[m] = float64(asked-before[m]) / d.Seconds() * idlePopulation / idleClients
	}
	return rates
}

// assertCheap checks the rates of a population: their mean over the members that serve, as clients choose
// members at random, and that no member has most.
func assertCheap(t *testing.T, rates map[*fakeetcd.Member]float64, serving int) {
	t.Helper()
	var mean, most float64
	for m, rate := range rates {
		t.Logf("%d clients ask %s %.0f times a second", idlePopulation, m.Name(), rate)
		mean, most = mean+rate/float64(serving), max(most, rate)
	}
	assert.Less(t, mean, 1000.0, "members are asked too much")
	assert.Less(t, most, 2*mean, "a member is asked more than its share")
}

// requireSpread checks that streams are opened again soon after the given time, but not all
// at the same instant: in no 20 ms more than three times as many as in the mean.
func requireSpread(t *testing.T, opened []time.Time, since time.Time) {
	t.Helper()
	const soon, width = 200 * time.Millisecond, 20 * time.Millisecond
	first, last := slices.MinFunc(opened, time.Time.Compare), slices.MaxFunc(opened, time.Time.Compare)
	require.Less(t, last.Sub(since), soon)
	require.Greater(t, last.Sub(first), soon/4)
	bins := make([]int, last.Sub(first)/width+1)
	for _, at := range opened {
		bins[at.Sub(first)/width]++
	}
	t.Logf("streams opened in each %v: %v", width, bins)
	require.LessOrEqual(t, float64(slices.Max(bins)), 3*float64(len(opened))/float64(len(bins)), "%v", bins)
}

// Ten thousand clients with nothing to do cost a member fewer than a thousand cheap calls
// a second. When a member dies, theirs do not all meet the others at the same instant;
// no lease and no event is lost.
func TestIdleClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := clienttest.Start(t, 3)
		book := keepStreamBook(cluster)
		clients := startIdle(t, cluster)
		assertCheap(t, rates(cluster, time.Minute), 3)

		open := book.forgetOpened()
		victim := slices.MaxFunc(cluster.Members(), func(a, b *fakeetcd.Member) int { return open[a] - open[b] })
		died := time.Now()
		victim.Stop()
		first := put(t, cluster, "k", 1)
		assertCheap(t, rates(cluster, time.Minute), 2)
		last := put(t, cluster, "k", 1)
		synctest.Wait()

		var all []time.Time
		for _, opened := range book.openings() {
			all = append(all, opened...)
		}
		require.Len(t, all, open[victim], "each stream of %s is opened once more", victim.Name())
		requireSpread(t, all, died)
		book.requireRenewed(t)
		for _, c := range clients {
			requireRevs(t, c.watch, first, last)
			requireAlive(t, c.lease)
		}
	})
}

// outage is how long all members are stopped.
const outage = 12 * time.Second

// A member that freezes within the length of an outage after it costs reads 0.7 s, not 20 ms: no read is hedged then.
func TestMemberFreezesAfterAnOutage(t *testing.T) {
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
