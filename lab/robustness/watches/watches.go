// Package watches is the workload of package robustness that checks everything that the readers of watches saw.
//
// It has writers that put and delete few keys again and
// again, alone, many in one txn, by the end of leases and in bursts; readers that watch keys
// and ranges in every way the API has, some slowly, some leaving and taking over
// from their own last revision; a caller that requests bookmarks; and a compactor.
//
// When the faults are over the writers stop, and every open watch must reach the last revision; then
// [watchcheck.Check] compares all of them with the record.
package watches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// The parts of the workload that draw random numbers.
const (
	compactorStream = iota << 32
	progressStream
	burstStream
	writerStream
	readerStream
)

// Config describes a run. Fields that are zero have their default. A run keeps what every reader saw in memory, up to 100 MB
// for each minute with the other defaults.
type Config struct {
	robustness.Config
	// connect connects the readers. Default [connect].
	connect func(endpoints []string) ([]Client, error)
	// settleTimeout is how long open watches may take at the end to reach the last
	// revision, after the writers have stopped and all members are well. It takes a
	// client a second or two; what a watch has not delivered by then counts as lost.
	// Default defaultSettleTimeout.
	settleTimeout time.Duration
}

const (
	// readerCount and writerCount are how many readers watch and writers write at a time.
	readerCount, writerCount = 24, 4

	defaultSettleTimeout = 30 * time.Second
)

// cluster makes members send bookmarks every second or so and split responses
// above 0.6 MB, which etcd does every ten minutes and above 2 MB.
var cluster = lab.Config{Args: []string{"--watch-progress-notify-interval=1s", "--max-request-bytes=65536"}}

// Run takes the history of a run and checks it, see [robustness.Run]. It also fails if something was left behind that should have
// ended.
func (c Config) Run(ctx context.Context) (robustness.Outcome, error) {
	c.settleTimeout = cmp.Or(c.settleTimeout, defaultSettleTimeout)
	if c.connect == nil {
		c.connect = connect
	}
	already := goleak.IgnoreCurrent()
	result, err := robustness.Run(ctx, c.Config, cluster, c.workload)
	return result, errors.Join(err, robustness.Leaked(already))
}

// workload runs readers and writers until the faults are over and all watches have reached the current revision. Then it checks what
// the readers saw.
func (c Config) workload(ctx context.Context, env *robustness.Env) {
	kv, err := quorate.Dial(clientv3.Config{Endpoints: env.Cluster.Endpoints()})
	fatal.If(err, "connect the writers")
	env.Cleanup(kv.Close)
	clients, err := c.connect(env.Cluster.Endpoints())
	for _, client := range clients {
		env.Cleanup(client.Close)
	}
	fatal.If(err, "connect the readers")
	compactor := &compactor{kv: kv, env: env}
	compacted := robustness.Go(1, func(int) { compactor.run(ctx, env.Rand(compactorStream)) })
	writers := write(kv, env)
	readers := watch(clients, env, func() storeState { return storeState{env.Record.Revision(), compactor.last.Load()} })
	var seen []history.Watch
	env.Cleanup(func() (err error) {
		seen, err = readers.end()
		return err
	})
	err = env.InjectFaults(ctx)
	<-compacted
	writers.end()
	fatal.If(err)
	settled, events := env.Recorded()
	clock := history.NewClock(writers.acked)
	readers.settle(c.settleTimeout, func(request history.WatchRequest, opened time.Duration) int64 {
		start, known := request.StartRevision, true
		if start == 0 {
			start, known = clock.AtMost(opened)
		}
		if !known {
			return 0
		}
		return request.Last(events, start)
	})
	fatal.If(env.Close())
	check(env, seen, clock, settled, compactor.made)
}

// check compares what the readers saw with the record.
func check(env *robustness.Env, seen []history.Watch, clock *history.Clock, settled int64, compactions []history.Answer) {
	through, events := env.Recorded()
	for i := range seen {
		if x := &seen[i]; x.Request.StartRevision == 0 && x.Returned > 0 {
			x.StartedBy, _ = clock.AtMost(x.Returned)
		}
		env.Counts.Add("watches", ending(&seen[i]), 1)
	}
	verdict := fatal.OK(watchcheck.Check(watchcheck.Reference{
		Events: events, Through: through, Settled: settled, Compactions: compactions,
	}, seen))
	env.Verdict = verdict.Verdict
	env.Counts.Add("store", "revisions", int(through))
	env.Counts.Add("history", "events", len(events))
	env.Counts.Add("history", "compactions", len(compactions))
	env.Counts.Add("watches", "events", int(verdict.Events))
}

// ending says how a watch ended.
func ending(w *history.Watch) string {
	if err := w.Err(); err != nil {
		return err.Error()
	}
	return [...]string{history.StillOpen: "open to the end", history.LeftByReader: "left", history.EndedByItself: "ended"}[w.End]
}

// Client is a client whose watches are put to the test.
type Client interface {
	client.Watcher
	// RequestProgress asks for bookmarks of the watches whose contexts have the
	// outgoing metadata of ctx.
	RequestProgress(ctx context.Context) error
	// Close ends the client and its watches.
	Close() error
}

// narrowBuffer bounds the watch buffers of one of the two clients, so that watches of
// slow readers are paused and resumed, which is rare with the default.
const narrowBuffer = 64 << 10

// connect connects two clients of Quorate: one with default policies, and one that pauses watches early.
func connect(endpoints []string) (clients []Client, err error) {
	for _, buffer := range []int{0, narrowBuffer} {
		c, err := quorate.Dial(clientv3.Config{Endpoints: endpoints, MaxWatchBufferBytes: buffer})
		if err != nil {
			return clients, err
		}
		clients = append(clients, quorate.Client{Client: c})
	}
	return clients, nil
}

const (
	// writePause is how long a writer waits on average between two writes. With the
	// default writers this makes about a hundred revisions a second.
	writePause = 35 * time.Millisecond
	// writeTimeout bounds a write or a compaction, so that a fault does not hold up its caller.
	writeTimeout = 2 * time.Second
	// shortLease is the time to live in seconds of the leases that writers attach
	// keys to and leave alone, so that they expire.
	shortLease = 2
	// burstSize is about how many puts a burst has, in burstLanes at the same time:
	// more than what makes the client catch up in several parts at a time.
	burstSize, burstLanes = 24000, 64
	// burstTimeout bounds a burst, which takes some five seconds if nothing is
	// wrong.
	burstTimeout = 15 * time.Second
	// firstBurst bounds the time before the first burst, shortestQuiet and
	// longestQuiet that between two.
	firstBurst                  = 8 * time.Second
	shortestQuiet, longestQuiet = 30 * time.Second, 90 * time.Second
	// largestValue bounds the values. A tenth are up to this size, so that what a
	// watch catches up with does not fit into one message.
	largestValue = 16 << 10
)

// The keys. They are few, so that each is created and deleted many times.
const (
	keyPrefix    = "/soak/"
	keyFamilies  = "ab"
	keysOfFamily = 8
	// quietKey is written a hundred times less often than the others: its watches
	// are idle, and far behind when they resume.
	quietKey = keyPrefix + "quiet"
)

// randomKey returns one of the keys.
func randomKey(rng *rand.Rand) string {
	return fmt.Sprintf("%s%c/%d", keyPrefix, keyFamilies[rng.IntN(len(keyFamilies))], rng.IntN(keysOfFamily))
}

// writers keep the store busy.
type writers struct {
	kv    *clientv3.Client
	now   func() time.Duration
	stop  context.CancelFunc
	work  sync.WaitGroup
	mu    sync.Mutex
	acked []history.Answer
}

// write starts the writers. They must be stopped.
func write(kv *clientv3.Client, env *robustness.Env) *writers {
	ctx, stop := context.WithCancel(context.Background())
	w := &writers{kv: kv, now: env.Now, stop: stop}
	for i := range writerCount {
		rng := env.Rand(writerStream + uint64(i))
		w.work.Go(func() { w.run(ctx, i, rng) })
	}
	w.work.Go(func() { w.bursts(ctx, env.Rand(burstStream)) })
	return w
}

// end stops the writers and returns when nothing of them is under way.
func (w *writers) end() {
	w.stop()
	w.work.Wait()
}

func (w *writers) run(ctx context.Context, index int, rng *rand.Rand) {
	for n := 0; pause.For(ctx, pace.Between(rng, 0, 2*writePause)) == nil; n++ {
		sent := w.now()
		if revision := w.one(ctx, rng, value(rng, index, n)); revision > 0 {
			w.mu.Lock()
			w.acked = append(w.acked, history.Answer{Sent: sent, Returned: w.now(), Revision: revision})
			w.mu.Unlock()
		}
	}
}

// bursts puts a great many small values now and then, as fast as it can, so that
// watches fall far behind.
func (w *writers) bursts(ctx context.Context, rng *rand.Rand) {
	quiet := pace.Between(rng, firstBurst/2, firstBurst)
	for n := 0; pause.For(ctx, quiet) == nil; n++ {
		var lanes sync.WaitGroup
		for lane := range burstLanes {
			key, each := randomKey(rng), (burstSize/2+rng.IntN(burstSize/2))/burstLanes
			lanes.Go(func() { w.burst(ctx, key, fmt.Sprintf("burst %d-%d", n, lane), each) })
		}
		lanes.Wait()
		quiet = pace.Between(rng, shortestQuiet, longestQuiet)
	}
}

// burst puts a key many times, however many of the puts fail.
func (w *writers) burst(ctx context.Context, key, name string, puts int) {
	ctx, cancel := context.WithTimeout(ctx, burstTimeout)
	defer cancel()
	for n := 0; n < puts && ctx.Err() == nil; n++ {
		w.burstPut(ctx, key, fmt.Sprintf("%s-%d", name, n))
	}
}

func (w *writers) burstPut(ctx context.Context, key, value string) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, _ = w.kv.Put(ctx, key, value) // the recorder sees whether it was executed
}

// value returns a value that is not written twice.
func value(rng *rand.Rand, index, n int) string {
	name := fmt.Sprintf("%d-%d", index, n)
	if rng.IntN(10) == 0 {
		name += strings.Repeat(".", rng.IntN(largestValue))
	}
	return name
}

// one makes a write and returns its revision, 0 if it failed or deleted nothing: the response to that has an
// earlier revision. Whether a failed write was executed does not matter: the recorder sees it then.
func (w *writers) one(ctx context.Context, rng *rand.Rand, value string) (revision int64) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_ = fatal.Catch(func() {
		response := fatal.OK(w.kv.Txn(ctx).Then(w.operations(ctx, rng, value)...).Commit())
		if slices.ContainsFunc(response.Responses, changes) {
			revision = response.Header.GetRevision()
		}
	})
	return revision
}

func changes(r *pb.ResponseOp) bool {
	return r.GetResponsePut() != nil || r.GetResponseDeleteRange().GetDeleted() > 0
}

// operations draws a write: in one case out of five it changes several keys.
func (w *writers) operations(ctx context.Context, rng *rand.Rand, value string) (ops []clientv3.Op) {
	switch n := rng.IntN(100); {
	case n < 1:
		ops = append(ops, clientv3.OpPut(quietKey, value))
	case n < 55:
		ops = append(ops, clientv3.OpPut(randomKey(rng), value))
	case n < 72:
		ops = append(ops, clientv3.OpDelete(randomKey(rng)))
	case n < 75:
		ops = append(ops, clientv3.OpDelete(keyPrefix+"a/", clientv3.WithPrefix()))
	case n < 79:
		lease := fatal.OK(w.kv.Grant(ctx, shortLease))
		ops = append(ops, clientv3.OpPut(randomKey(rng), value, clientv3.WithLease(lease.ID)))
	default:
		seen := map[string]bool{}
		for range 2 + rng.IntN(4) {
			key := randomKey(rng)
			switch {
			case seen[key]: // etcd refuses to write a key twice
				continue
			case rng.IntN(3) == 0:
				ops = append(ops, clientv3.OpDelete(key))
			default:
				ops = append(ops, clientv3.OpPut(key, value))
			}
			seen[key] = true
		}
	}
	return ops
}

const (
	// shortestInterval and longestInterval bound the time between two compactions.
	shortestInterval, longestInterval = time.Second, 10 * time.Second
	// fewKept bounds the revisions that half of the compactions leave, so that
	// many a watch comes too late, and manyKept those that the others leave, so
	// that watches have much to catch up with.
	fewKept, manyKept = 250, 24000
)

// compactor compacts the history now and then.
type compactor struct {
	kv   *clientv3.Client
	env  *robustness.Env
	made []history.Answer // with those whose outcome is unknown
	last atomic.Int64     // the highest revision of them
}

// run compacts until ctx ends.
func (c *compactor) run(ctx context.Context, rng *rand.Rand) {
	for pause.For(ctx, pace.Between(rng, shortestInterval, longestInterval)) == nil {
		leave := rng.Int64N(fewKept)
		if rng.IntN(2) == 0 {
			leave = rng.Int64N(manyKept)
		}
		if revision := c.env.Record.Revision() - leave; revision > c.last.Load() {
			c.compact(ctx, revision)
		}
	}
}

// compact compacts to a revision. Its error does not matter: the
// compaction may still be executed.
func (c *compactor) compact(ctx context.Context, revision int64) {
	c.made = append(c.made, history.Answer{Sent: c.env.Now(), Revision: revision})
	c.last.Store(revision)
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, _ = c.kv.Compact(ctx, revision)
}
