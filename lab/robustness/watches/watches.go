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
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
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
	compactor := &compactor{kv: kv, rec: env.Record}
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
func check(env *robustness.Env, seen []history.Watch, clock *history.Clock, settled int64, compactions []int64) {
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
