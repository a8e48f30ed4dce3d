// Package soak keeps watches under faults for as long as one likes, and checks
// everything that their readers saw.
//
// [Run] starts a cluster and, on it, writers that put and delete few keys again and
// again, alone, many in one txn, by the end of leases and in bursts; readers that watch keys
// and ranges in every way the API has, some slowly, some leaving and taking over
// from their own last revision; somebody who asks for bookmarks; and a compactor.
// Meanwhile members are killed, stopped and cut off, leaders moved, links cut,
// delayed and blackholed, in an order that the seed gives.
//
// A recorder takes the whole history from the members themselves, past the links
// and the client under test. When the faults are over the writers stop, and every
// watch that is open must come to the last revision; then [watchcheck.Check] holds
// all of them against the record.
package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/record"
	"github.com/quorate/quorate/lab/watchcheck"
)

// The streams of random numbers, so that what one part of a run draws does not
// change what another does.
const (
	faultStream = iota << 32
	cutStream
	compactorStream
	progressStream
	burstStream
	writerStream
	readerStream
)

const (
	// leakTimeout is how long goroutines may take to end after everything is closed.
	leakTimeout = 5 * time.Second
	// recordTimeout is how long the recorder may take to come to the end.
	recordTimeout = 30 * time.Second
)

// memberArgs make members send bookmarks every second or so and split responses
// above 0.6 MB, which etcd does every ten minutes and above 2 MB.
var memberArgs = []string{"--watch-progress-notify-interval=1s", "--max-request-bytes=65536"}

// run is one run.
type run struct {
	cfg       Config
	began     time.Time
	cluster   *lab.Cluster
	kv        *clientv3.Client
	rec       *record.Recorder
	writers   *writers
	readers   *readers
	compactor *compactor
	storm     *fault.Storm
	result    Result
}

// Run takes the history of a run and checks it. The error says why the run could
// not go on, or that something was left behind that should have ended; a promise
// that was broken is no error, see the result's Verdict. The end of ctx ends the
// run early, which is no error either.
//
// When Run returns, the cluster is gone with its processes, ports and files.
func Run(ctx context.Context, cfg Config) (Result, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return Result{}, err
	}
	already := goleak.IgnoreCurrent()
	r := &run{cfg: cfg, began: time.Now(), result: Result{Seed: cfg.Seed, Members: cfg.Members}}
	err = r.inCluster(ctx)
	r.result.Interrupted = ctx.Err() != nil
	return r.result, errors.Join(err, leaked(already))
}

// leaked waits for goroutines to end, and fails with the stacks of those that are
// left.
func leaked(already goleak.Option) error {
	deadline := time.Now().Add(leakTimeout)
	for {
		err := goleak.Find(already)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("goroutines are left behind: %w", err)
		}
	}
}

// inCluster runs between the start and the end of the cluster.
func (r *run) inCluster(ctx context.Context) (err error) {
	r.note(fmt.Sprintf("starting %d members, seed %d", r.cfg.Members, r.cfg.Seed))
	r.cluster, err = lab.Start(ctx, lab.Config{Members: r.cfg.Members, Dir: r.cfg.Dir, Args: memberArgs})
	if err != nil && ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, r.cluster.Close()) }()
	r.rec = record.Start(r.cluster)
	defer r.rec.Stop()
	if r.kv, err = newClient(r.cluster.Endpoints(), 0); err != nil {
		return fmt.Errorf("connect the writers: %w", err)
	}
	defer func() { err = errors.Join(err, r.kv.Close()) }()
	client, err := r.cfg.Connect(r.cluster.Endpoints())
	if err != nil {
		return fmt.Errorf("connect the readers: %w", err)
	}
	watches, settled, err := r.underFaults(ctx, client)
	if err = errors.Join(err, client.Close()); err != nil {
		return err
	}
	return r.check(watches, settled)
}

// underFaults runs everything for the time of the run, and returns what the readers
// saw and the revision at which the store settled.
func (r *run) underFaults(ctx context.Context, client Client) ([]history.Watch, int64, error) {
	seed := r.cfg.Seed
	r.compactor = &compactor{cluster: r.cluster, rec: r.rec}
	r.storm = fault.NewStorm(fault.Scene{Cluster: r.cluster, Rand: r.rng(faultStream), Note: r.note}, r.rng(cutStream))
	r.writers = write(r.kv, r.cfg.Writers, seed, r.now)
	r.readers = watch(client, r.cfg.Watches, seed, r.now, r.known)
	err := r.faults(ctx)
	r.note("the faults are over; writers stop and watches settle")
	r.writers.end()
	var settled int64
	if err == nil {
		settled, err = r.settle()
	}
	watches, failures := r.readers.end()
	return watches, settled, errors.Join(err, failures)
}

// faults injects faults, breaks connections and compacts for the time of the run.
func (r *run) faults(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Duration)
	defer cancel()
	var beside sync.WaitGroup
	beside.Go(func() { r.compactor.run(ctx, r.rng(compactorStream)) })
	err := r.storm.Run(ctx)
	cancel()
	beside.Wait()
	return err
}

// settle waits until all open watches have come to the current revision, and
// returns that.
func (r *run) settle() (int64, error) {
	settled, err := r.recorded()
	if err != nil {
		return 0, err
	}
	events := r.rec.Events()
	after := r.writers.writtenAfter()
	r.readers.settle(r.cfg.SettleTimeout, func(request history.WatchRequest, returned time.Duration) int64 {
		start := request.StartRevision
		if start == 0 {
			start = after(returned)
		}
		return lastOwed(events, request, start, settled)
	})
	return settled, nil
}

// lastOwed returns the revision of the last event from start to end that matches a
// request, 0 if there is none or start is 0.
func lastOwed(events []history.Event, request history.WatchRequest, start, end int64) int64 {
	for i := len(events) - 1; i >= 0 && start > 0 && events[i].ModRevision >= start; i-- {
		if events[i].ModRevision <= end && request.Matches(events[i]) {
			return events[i].ModRevision
		}
	}
	return 0
}

// recorded waits until the recorder has come to the current revision of the store,
// and returns that.
func (r *run) recorded() (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	return r.rec.CatchUp(ctx)
}

// check holds what the readers saw against the record.
func (r *run) check(watches []history.Watch, settled int64) error {
	through, err := r.recorded()
	if err != nil {
		return err
	}
	r.note(fmt.Sprintf("checking %d watches against %d revisions", len(watches), through))
	after := r.writers.writtenAfter()
	for i := range watches {
		if w := &watches[i]; w.Request.StartRevision == 0 && w.Returned > 0 {
			w.StartedBy = after(w.Returned)
		}
	}
	reference := watchcheck.Reference{
		Events: record.Through(r.rec.Events(), through), Through: through, Settled: settled, Compactions: r.compactor.all(),
	}
	verdict, err := watchcheck.Check(reference, watches)
	if err != nil {
		return err
	}
	r.result.count(r, watches, through)
	r.result.Verdict = verdict
	return nil
}

func (r *run) known() news {
	return news{revision: r.rec.Revision(), compacted: r.compactor.last()}
}

func (r *run) now() time.Duration { return time.Since(r.began) }

func (r *run) rng(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(r.cfg.Seed, stream)) }

// note writes a line to the log.
func (r *run) note(text string) {
	_, _ = fmt.Fprintf(r.cfg.Log, "%7.1fs  %s\n", r.now().Seconds(), text)
}
