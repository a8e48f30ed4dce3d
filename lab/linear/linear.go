// Package linear uses an etcd cluster under faults, for as long as one likes, and
// checks that what clients were answered is linearizable.
//
// [Run] starts a cluster and, on it, callers that read, write, delete and compare a
// few keys through the client under test. Meanwhile members are killed, stopped and
// cut off, leaders moved, links cut, delayed and blackholed, in an order that the seed
// gives. Some callers have little patience, so that calls also end on their way.
//
// The keys live in groups, each for a few seconds, so that the history of a group is
// short enough to be checked: by [model.Check], while the run goes on. Before that, the
// keys are read once more. Every revision of the store must have been taken by a write
// that somebody made, so at the end those are counted too: a write that was executed
// twice shows there even if nobody saw it.
package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/internal/pace"
)

// The streams of random numbers, so that what one part of a run draws does not
// change what another does.
const (
	faultStream = iota << 32
	cutStream
	callerStream
)

const (
	// callersOfClient is how many callers share a client.
	callersOfClient = 3
	// returnTimeout bounds the time from the end of the faults to that of the calls
	// that are under way. None has more than callTimeout.
	returnTimeout = callTimeout + 20*time.Second
	// settleTimeout bounds the time from the end of the calls to that of all checks.
	settleTimeout = 2 * time.Minute
	// progressInterval is how often the log is told how the run stands.
	progressInterval = 10 * time.Second
)

// run is one run.
type run struct {
	cfg     Config
	began   time.Time
	cluster *lab.Cluster
	storm   *fault.Storm
	clients []Client
	pool    *pool
	checker *checker
	result  Result
}

// Run uses a cluster and checks what comes of it. The error says why the run could not
// go on; a history that is not linearizable is no error, see the result's Verdict. The
// end of ctx ends the run early, which is no error either.
//
// When Run returns, the cluster is gone with its processes, ports and files.
func Run(ctx context.Context, cfg Config) (Result, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return Result{}, err
	}
	r := &run{cfg: cfg, began: time.Now(), result: Result{Seed: cfg.Seed, Members: cfg.Members, Callers: cfg.Callers}}
	err = r.inCluster(ctx)
	r.result.Interrupted = ctx.Err() != nil
	return r.result, err
}

// inCluster runs between the start and the end of the cluster.
func (r *run) inCluster(ctx context.Context) (err error) {
	r.note(fmt.Sprintf("starting %d members, seed %d", r.cfg.Members, r.cfg.Seed))
	r.cluster, err = lab.Start(ctx, lab.Config{Members: r.cfg.Members, Dir: r.cfg.Dir})
	if err != nil && ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, r.cluster.Close()) }()
	r.storm = fault.NewStorm(fault.Scene{Cluster: r.cluster, Rand: r.rng(faultStream), Note: r.note}, r.rng(cutStream))
	defer func() {
		for _, c := range r.clients {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := r.connect(); err != nil {
		return err
	}
	return r.underFaults(ctx)
}

// connect connects the clients of the callers, and that of the checker as the last.
func (r *run) connect() error {
	for range (r.cfg.Callers+callersOfClient-1)/callersOfClient + 1 {
		c, err := r.cfg.Connect(r.cluster.Endpoints())
		if err != nil {
			return fmt.Errorf("connect a client: %w", err)
		}
		r.clients = append(r.clients, c)
	}
	return nil
}

// underFaults lets callers call under faults for the time of the run, while what they
// were answered is checked.
func (r *run) underFaults(ctx context.Context) error {
	checking, abandon := context.WithCancel(context.Background())
	defer abandon()
	r.pool = newPool(r.now)
	r.checker = newChecker(r)
	checked := all(checkers, func(int) { r.checker.run(checking, r.pool.retired) })

	ctx, cancel := context.WithTimeout(ctx, r.cfg.Duration)
	defer cancel()
	called := all(r.cfg.Callers, func(i int) {
		c := caller{number: i, client: r.clients[i/callersOfClient], pool: r.pool, rng: r.rng(callerStream + uint64(i)), now: r.now}
		c.run(ctx)
	})
	reported := all(1, func(int) { r.report(ctx) })
	stormy := r.storm.Run(ctx)
	cancel()
	<-reported
	r.note("the faults are over; what is left is checked")
	if err := await(called, returnTimeout, "calls do not return, long after their contexts have ended"); err != nil {
		return errors.Join(stormy, err)
	}
	r.pool.close()
	err := await(checked, settleTimeout, "the keys cannot be read or checked, long after all is well")
	if err != nil {
		abandon()
		<-checked
		return errors.Join(stormy, err)
	}
	err = r.checker.conclude()
	r.result.fill(r)
	return errors.Join(stormy, err)
}

// all does something n times at once. The channel is closed when all is done.
func all(n int, do func(int)) <-chan struct{} {
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() { do(i) })
	}
	done := make(chan struct{})
	go func() {
		work.Wait()
		close(done)
	}()
	return done
}

// await waits for something to be done.
func await(done <-chan struct{}, timeout time.Duration, otherwise string) error {
	select {
	case <-done:
		return nil
	case <-time.After(timeout):
		return fmt.Errorf("%s (%v)", otherwise, timeout)
	}
}

// report tells the log now and then how the run stands.
func (r *run) report(ctx context.Context) {
	for pace.Sleep(ctx, progressInterval) == nil {
		r.note(fmt.Sprintf("%d operations; %v", r.pool.count(), r.checker))
	}
}

func (r *run) now() time.Duration { return time.Since(r.began) }

func (r *run) rng(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(r.cfg.Seed, stream)) }

// note writes a line to the log.
func (r *run) note(text string) {
	_, _ = fmt.Fprintf(r.cfg.Log, "%7.1fs  %s\n", r.now().Seconds(), text)
}
