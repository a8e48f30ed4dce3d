package cases

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/internal/stats"
)

// spotChecks bounds how many watches are checked.
const spotChecks = 100

// dialTimeout is the DialTimeout of the clients. No case dials under it, but it is
// also how long a lease waits for its first renewal, by default 5 s, which on a busy
// machine is too short for thousands of new leases.
const dialTimeout = time.Minute

// first is the key of the watch that openConnected makes.
const first = "first"

func key(i int) string { return fmt.Sprintf("%s%05d", Prefix, i) }

// openConnected makes a client that has a connection, a watch and its stream, so
// that making these is not measured.
func openConnected(ctx context.Context, site Site, opts ...grpc.DialOption) *clientv3.Client {
	c := fatal.OK(open(site, opts...))
	check(ctx, c, c.Watch(ctx, first), first)
	return c
}

// open makes a client. Fields that are not set have the client's own defaults, except
// for the logger, which discards.
func open(site Site, opts ...grpc.DialOption) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: site.Endpoints, DialOptions: opts, DialTimeout: dialTimeout, Logger: zap.NewNop()})
}

// callers are goroutines that make watches at one signal, and last until they are stopped.
type callers struct {
	begin, end       chan struct{}
	calling, running sync.WaitGroup
}

// startCallers starts callers that are going to make watches. They must be stopped.
func startCallers(size int, watches []clientv3.WatchChan, watch func(int) clientv3.WatchChan) *callers {
	w := &callers{begin: make(chan struct{}), end: make(chan struct{})}
	w.calling.Add(size)
	var next atomic.Int64
	for range size {
		w.running.Go(func() {
			<-w.begin
			for i := int(next.Add(1)) - 1; i < len(watches); i = int(next.Add(1)) - 1 {
				watches[i] = watch(i)
			}
			w.calling.Done()
			<-w.end
		})
	}
	return w
}

// call has the watches made, and returns when all calls have returned.
func (w *callers) call() {
	close(w.begin)
	w.calling.Wait()
}

func (w *callers) stop() {
	close(w.end)
	w.running.Wait()
}

// spotCheck makes sure that some of the watches, of which the i-th watches key(i),
// work.
func spotCheck(ctx context.Context, c *clientv3.Client, watches []clientv3.WatchChan) {
	for i := 0; i < len(watches); i += max(len(watches)/spotChecks, 1) {
		check(ctx, c, watches[i], key(i))
	}
}

// check makes sure that a put to key, and nothing else, is delivered by w.
func check(ctx context.Context, c *clientv3.Client, w clientv3.WatchChan, key string) {
	resp := fatal.OK(c.Put(ctx, key, "value"))
	fatal.If(expect(w, key, resp.Header.Revision))
}

// errClosed says that the client closed a channel that was still wanted.
var errClosed = errors.New("the client closed the channel")

// next waits for the next response of a watch and returns its events.
func next(w clientv3.WatchChan) ([]*clientv3.Event, error) {
	resp, open := <-w
	if !open {
		return nil, errClosed
	}
	return resp.Events, resp.Err()
}

// expect waits for the next response of w, which must be one put.
func expect(w clientv3.WatchChan, key string, revision int64) error {
	events, err := next(w)
	if err != nil {
		return fmt.Errorf("the watch that waits for %s: %w", key, err)
	}
	if len(events) != 1 || string(events[0].Kv.Key) != key || events[0].Kv.ModRevision != revision {
		return fmt.Errorf("a watch delivered %v in place of the put to %s at revision %d", events, key, revision)
	}
	return nil
}

// create calls Watch for all keys at the same time. The time is that until the last call has returned.
func create(ctx context.Context, site Site) Sample {
	c := openConnected(ctx, site)
	defer func() { _ = c.Close() }()
	watches := make([]clientv3.WatchChan, site.Size)
	callers := startCallers(site.Size, watches, func(i int) clientv3.WatchChan { return c.Watch(ctx, key(i)) })
	defer callers.stop()
	start := time.Now()
	callers.call()
	took := time.Since(start)
	spotCheck(ctx, c, watches)
	return Sample{"time-s": took.Seconds()}
}

// idleCallers is how many callers make the watches whose memory is measured.
const idleCallers = 64

// idleWatches measures the goroutines of a watch, and its heap and stacks after a garbage collection: the difference between all
// watches and none. Each watch has a key and a cancellable context of its own, made before the measurement. The goroutines that
// call Watch exist before and after it, so that neither they nor what the runtime keeps of dead goroutines counts.
func idleWatches(ctx context.Context, site Site) Sample {
	c := openConnected(ctx, site)
	defer func() { _ = c.Close() }()
	contexts, keys := make([]context.Context, 0, site.Size), make([]string, 0, site.Size)
	for i := range site.Size {
		watching, cancel := context.WithCancel(ctx)
		defer cancel()
		contexts, keys = append(contexts, watching), append(keys, key(i))
	}
	watches := make([]clientv3.WatchChan, site.Size)
	callers := startCallers(idleCallers, watches, func(i int) clientv3.WatchChan { return c.Watch(contexts[i], keys[i]) })
	defer callers.stop()

	before := inUse()
	callers.call()
	after := inUse()

	n := float64(site.Size)
	sample := Sample{
		"memory-KB":  float64(after.bytes-before.bytes) / 1024 / n,
		"goroutines": float64(after.goroutines-before.goroutines) / n,
	}
	runtime.KeepAlive(contexts)
	runtime.KeepAlive(keys)
	spotCheck(ctx, c, watches)
	return sample
}

// usage is what a process has in use.
type usage struct {
	bytes, goroutines int64
}

// inUse measures after two garbage collections: the second frees what finalizers
// and pools held in the first.
func inUse() usage {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{bytes: int64(m.HeapAlloc + m.StackInuse), goroutines: int64(runtime.NumGoroutine())}
}

// putToEvent makes one put after the other to a watched key, and times from the call of Put until the watch has delivered it. The
// time is the median.
func putToEvent(ctx context.Context, site Site) Sample {
	c := openConnected(ctx, site)
	defer func() { _ = c.Close() }()
	w := c.Watch(ctx, key(0))
	times := make([]float64, site.Size) // in seconds
	for i := range times {
		start := time.Now()
		check(ctx, c, w, key(0))
		times[i] = time.Since(start).Seconds()
	}
	return Sample{"time-s": stats.Of(times).Median}
}
