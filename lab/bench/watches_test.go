package bench

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/scrape"
	"github.com/quorate/quorate/lab/internal/stats"
	"github.com/quorate/quorate/lab/link"
)

// oneWay is the latency of links in each direction: a round trip takes 2 ms.
const oneWay = time.Millisecond

// benchmark is a measurement of one client.
type benchmark struct {
	name        string
	size, short int // watches, leases or puts, and those of a short run
	members     int
	oneWay      time.Duration // latency of the links in each direction; 0: clients connect to the members directly
	run         func(setup) figures
}

var benchmarks = []benchmark{
	{"create", 10_000, 500, 1, oneWay, create},
	{"idle", 10_000, 2_000, 1, 0, idle},
	{"resume", 10_000, 500, 3, oneWay, resume},
	{"replay", 60_000, 5_000, 1, 0, replay},
	{"live", 20_000, 2_000, 1, 0, live},
	{"stalled", 900, 30, 1, 0, stalled},
	{"latency", 2_000, 200, 1, 0, latency},
	{"leases", 50_000, 1_000, 1, 0, leases},
}

func BenchmarkClients(b *testing.B) {
	for _, of := range benchmarks {
		size := of.size
		if testing.Short() {
			size = of.short
		}
		b.Run(of.name, func(b *testing.B) {
			compare(b, func(ctx context.Context, k kind) figures { return of.measure(ctx, k, size) })
		})
	}
}

// measure takes a sample on a cluster of its own.
func (of benchmark) measure(ctx context.Context, k kind, size int) figures {
	cluster := fatal.OK(lab.Start(ctx, lab.Config{Members: of.members}))
	defer cluster.Close()
	endpoints := cluster.DirectEndpoints()
	if of.oneWay > 0 {
		endpoints = cluster.Endpoints()
		for _, m := range cluster.Members() {
			cluster.ClientLink(m).Delay(link.Both, of.oneWay)
		}
	}
	return of.run(setup{ctx, k, cluster, endpoints, size})
}

// setup is what a benchmark runs on.
type setup struct {
	context.Context // of one sample
	kind
	cluster   *lab.Cluster
	endpoints []string
	size      int
}

// connect makes a client that has a connection, a watch and its stream, so that making these is not measured.
func (s setup) connect(options ...grpc.DialOption) client {
	c := fatal.OK(s.open(config{endpoints: s.endpoints, options: options}))
	s.check(c, c.watch(s, "first"), "first")
	return c
}

// check makes sure that a put to a key, and nothing else, is delivered by a watch.
func (s setup) check(c client, w watch, key string) {
	revision := fatal.OK(c.put(s, key))
	events := fatal.OK(w.next())
	if len(events) != 1 || string(events[0].Kv.Key) != key || events[0].Kv.ModRevision != revision {
		fatal.If(fmt.Errorf("a watch delivered %v in place of the put to %s at revision %d", events, key, revision))
	}
}

// checkSome checks a hundred watches, of which the i-th watches key(i).
func (s setup) checkSome(c client, watches []watch) {
	for i := 0; i < len(watches); i += max(len(watches)/100, 1) {
		s.check(c, watches[i], key(i))
	}
}

// atOnce makes watches at the same time, each by a goroutine of its own.
func atOnce(n int, open func(int) watch) []watch {
	watches := make([]watch, n)
	var all sync.WaitGroup
	for i := range watches {
		all.Go(func() { watches[i] = open(i) })
	}
	all.Wait()
	return watches
}

// create calls Watch for all keys at the same time. The time is that until the last call has returned.
func create(s setup) figures {
	c := s.connect()
	defer c.Close()
	start := time.Now()
	watches := atOnce(s.size, func(i int) watch { return c.watch(s, key(i)) })
	took := time.Since(start)
	s.checkSome(c, watches)
	return figures{"time-s": took.Seconds()}
}

// idle measures the goroutines of a watch, and its heap and stacks after a garbage collection: the difference between all
// watches and none. Each watch has a key and a cancellable context of its own, made before the measurement.
func idle(s setup) figures {
	c := s.connect()
	defer c.Close()
	contexts, keys, watches := make([]context.Context, 0, s.size), make([]string, s.size), make([]watch, s.size)
	for i := range watches {
		watching, cancel := context.WithCancel(s)
		defer cancel()
		contexts, keys[i] = append(contexts, watching), key(i)
	}
	bytes, goroutines := inUse()
	for i := range watches {
		watches[i] = c.watch(contexts[i], keys[i])
	}
	bytesAfter, goroutinesAfter := inUse()
	s.checkSome(c, watches)
	runtime.KeepAlive(contexts)
	runtime.KeepAlive(keys)
	n := float64(s.size)
	return figures{"memory-KB": (bytesAfter - bytes) / 1024 / n, "goroutines": (goroutinesAfter - goroutines) / n}
}

// inUse measures after two garbage collections: the second frees what finalizers and pools held in the first.
func inUse() (bytes, goroutines float64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse), float64(runtime.NumGoroutine())
}

// resume makes watches of one prefix with the endpoint of a member, gives the client those of all three, and kills the first; if
// it led, another one leads before. The time is that until the others have as many watches, which their metrics tell. A put must
// then reach every watch.
func resume(s setup) figures {
	all := s.endpoints
	s.endpoints = all[:1]
	c := s.connect()
	defer c.Close()
	watches := atOnce(s.size, func(int) watch { return c.watchAll(s, prefix, 0) })
	c.SetEndpoints(all...)
	members := s.cluster.Members()
	if members[0] == fatal.OK(s.cluster.Leader(s)) {
		fatal.If(s.cluster.MoveLeader(s, members[1]))
	}
	fatal.If(pause.For(s, time.Second)) // until the others are connected
	began := time.Now()
	fatal.If(members[0].Kill())
	for served := 0; served <= s.size; { // with that of connect
		fatal.If(pause.For(s, time.Millisecond))
		served = 0
		for _, m := range members[1:] {
			seen := scrape.Read(s, scrape.Client, m.DirectEndpoint())
			served += int(seen.Sum("etcd_debugging_mvcc_watcher_total"))
		}
	}
	took := time.Since(began)
	fatal.OK(c.put(s, prefix))
	for _, w := range watches {
		read(w, 1)
	}
	return figures{"time-s": took.Seconds()}
}

// replay watches a prefix from the first of many puts that were made before, until the last is delivered.
func replay(s setup) figures {
	c := s.connect()
	defer c.Close()
	first := fatal.OK(c.put(s, prefix))
	fatal.If(puts(s, s.cluster.Members()[0], s.size, 100))
	before, start := allocations(), time.Now()
	begin, end := read(c.watchAll(s, prefix, first+1), s.size)
	took, allocated := time.Since(start), allocations()-before
	if begin != first+1 || end-first != int64(s.size) {
		fatal.If(fmt.Errorf("a watch delivered revisions %d to %d of %d puts after revision %d", begin, end, s.size, first))
	}
	return figures{"time-s": took.Seconds(), "allocations": allocated / float64(s.size)}
}

// live makes puts while one watch of their prefix is read. The server sends most of them in a response of its own.
func live(s setup) figures {
	c := s.connect()
	defer c.Close()
	w := c.watchAll(s, prefix, 0)
	written := make(chan error, 1)
	before := allocations()
	go func() { written <- puts(s, s.cluster.Members()[0], s.size, 100) }()
	read(w, s.size)
	allocated := allocations() - before
	fatal.If(<-written)
	return figures{"allocations": allocated / float64(s.size)}
}

// read reads n puts, each of a higher revision than the one before, and returns the first and the last revision.
func read(w watch, n int) (first, last int64) {
	for n > 0 {
		events := fatal.OK(w.next())
		for _, ev := range events {
			if ev.Kv.ModRevision <= last || ev.Type != mvccpb.Event_PUT {
				fatal.If(fmt.Errorf("a watch delivered %v after revision %d", ev, last))
			}
			last = ev.Kv.ModRevision
			if first == 0 {
				first = last
			}
		}
		n -= len(events)
	}
	return first, last
}

// allocations returns the number of allocations of the process since it began.
func allocations() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Mallocs)
}

// stalled stalls the reader of a watch while puts of 500 kB are made, and then reads all of them. Then it opens a watch from the
// first of them, and reads that after a second. Meanwhile another watch of the same client gets an event every 20 ms. The memory
// is the largest heap, garbage included; the delays are the longest ones of the other watch.
func stalled(s setup) figures {
	c := s.connect()
	defer c.Close()
	slow, other := c.watchAll(s, prefix, 0), c.watch(s, "other")
	ctx, cancel := context.WithCancel(s)
	var delays worst
	ended := make(chan error, 1)
	go func() { ended <- fatal.Catch(func() { s.follow(ctx, other, &delays) }) }()
	defer func() { fatal.If(<-ended) }()
	defer cancel()
	runtime.GC()
	runtime.GC() // of what the client before has left in pools
	heap := watchHeap(ctx)
	fatal.If(puts(s, s.cluster.Members()[0], s.size, 500_000))
	f := figures{"delay-s": delays.take()}
	first, _ := read(slow, s.size)
	f["delay-read-s"] = delays.take()
	behind := c.watchAll(s, prefix, first)
	fatal.If(pause.For(s, time.Second))
	read(behind, s.size)
	f["delay-backlog-s"], f["memory-KB"] = delays.take(), float64(heap.Load())/1024
	return f
}

// watchHeap returns the largest size of the heap until ctx ends.
func watchHeap(ctx context.Context) *atomic.Uint64 {
	most := new(atomic.Uint64)
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	go func() {
		for pause.For(ctx, 5*time.Millisecond) == nil {
			metrics.Read(sample)
			most.Store(max(most.Load(), sample[0].Value.Uint64()))
		}
	}()
	return most
}

// follow puts a key with a client of its own, and measures the time from the response to each put until the watch delivers it.
func (s setup) follow(ctx context.Context, w watch, delays *worst) {
	writer := s.connect()
	defer writer.Close()
	for pause.For(ctx, 20*time.Millisecond) == nil {
		fatal.OK(writer.put(s, "other"))
		delays.begin()
		fatal.OK(w.next())
		delays.end()
	}
}

// worst is the longest of some delays.
type worst struct {
	mu      sync.Mutex
	began   time.Time // of the one that has not ended
	longest time.Duration
}

func (w *worst) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = time.Now()
}

func (w *worst) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest, w.began = max(w.longest, time.Since(w.began)), time.Time{}
}

// take returns the longest delay since the last call of take, in seconds, the current one included.
func (w *worst) take() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.began.IsZero() {
		w.longest = max(w.longest, time.Since(w.began))
	}
	defer func() { w.longest = 0 }()
	return w.longest.Seconds()
}

// latency makes one put after the other to a watched key, and times from the call of Put until the watch has delivered it. The
// time is the median.
func latency(s setup) figures {
	c := s.connect()
	defer c.Close()
	w, times := c.watch(s, prefix), make([]float64, s.size) // in seconds
	for i := range times {
		start := time.Now()
		s.check(c, w, prefix)
		times[i] = time.Since(start).Seconds()
	}
	return figures{"time-ms": 1e3 * stats.Of(times).Median}
}
