// Package locks lets many programs contend for few locks under faults, for as long
// as one likes, and checks that no lock was held by two.
//
// [Run] starts a cluster and, on it, contenders: each has a client, a session with a
// short lease and a link to every member of its own. Round after round a contender
// takes a mutex or an election, by Lock, TryLock or Campaign, writes to the lock's
// register in txns that are guarded by the lock, and gives it up: by Unlock or
// Resign, by closing the session, by leaving the session to expire, or by the sudden
// end of its client. Some contenders are paused past their lease, as programs are
// whose host sleeps: while they wait, while they hold the lock, or with a guarded
// write on its way; then they go on as if nothing had happened. Meanwhile members are
// killed, stopped and cut off, leaders moved, links cut, delayed and blackholed, in an
// order that the seed gives.
//
// A recorder takes the whole history from the members themselves, past the links
// and the clients under test. When the faults are over every contender takes a lock
// once more; then [lockcheck.Check] holds what they were told against the record.
package locks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/locks/lockcheck"
	"github.com/quorate/quorate/lab/record"
)

// The streams of random numbers, so that what one part of a run draws does not
// change what another does.
const (
	faultStream = iota << 32
	cutStream
	contenderStream
)

const (
	// roundTimeout bounds the time from the end of the faults to that of the rounds
	// that are under way: a session, a lock, all writes and the end of the session,
	// each in the time it may take.
	roundTimeout = time.Minute
	// recordTimeout is how long the recorder may take to come to the end.
	recordTimeout = 30 * time.Second
)

// run is one run.
type run struct {
	cfg        Config
	began      time.Time
	cluster    *lab.Cluster
	rec        *record.Recorder
	storm      *fault.Storm
	locks      []lockcheck.LockKeys
	contenders []*contender
	book       book
	calm       time.Duration // when the contenders took their last lock
	result     Result
}

// Run takes the history of a run and checks it. The error says why the run could
// not go on; a promise that was broken is no error, see the result's Verdict. The end
// of ctx ends the run early, which is no error either.
//
// When Run returns, the cluster is gone with its processes, ports and files.
func Run(ctx context.Context, cfg Config) (Result, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return Result{}, err
	}
	r := &run{cfg: cfg, began: time.Now(), result: Result{Seed: cfg.Seed, Members: cfg.Members, Contenders: cfg.Contenders}}
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
	r.rec = record.Start(r.cluster)
	defer r.rec.Stop()
	r.storm = fault.NewStorm(fault.Scene{Cluster: r.cluster, Rand: r.rng(faultStream), Note: r.note}, r.rng(cutStream))
	err = r.contend(ctx)
	for _, c := range r.contenders {
		err = errors.Join(err, c.disconnect())
	}
	if err != nil {
		return err
	}
	return r.check()
}

// contend lets contenders contend, under faults for the time of the run and then
// once more without.
func (r *run) contend(ctx context.Context) error {
	if err := r.gather(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Duration)
	defer cancel()
	failures := make([]error, len(r.contenders))
	rounds := r.each(func(i int, c *contender) { failures[i] = c.contend(ctx) })
	stormy := r.storm.Run(ctx)
	cancel()
	r.note("the faults are over; every contender takes a lock once more")
	if err := await(rounds, roundTimeout); err != nil {
		return errors.Join(stormy, err)
	}
	if err := errors.Join(stormy, errors.Join(failures...)); err != nil {
		return err
	}
	r.calm = r.now()
	settling, cancel := context.WithTimeout(context.Background(), r.cfg.SettleTimeout)
	defer cancel()
	return await(r.each(func(_ int, c *contender) { c.once(settling) }), r.cfg.SettleTimeout+roundTimeout)
}

// gather makes the locks and connects the contenders.
func (r *run) gather() error {
	names := make([]string, r.cfg.Locks)
	for i := range names {
		names[i] = fmt.Sprintf("/locks/%v-%d", style(i), i)
		r.locks = append(r.locks, lockcheck.LockKeys{Prefix: names[i] + "/", Register: fmt.Sprintf("/registers/%d", i)})
	}
	for i := range r.cfg.Contenders {
		c := &contender{
			index: i, cfg: r.cfg, locks: r.locks, names: names, book: &r.book, rec: r.rec, now: r.now,
			rng: r.rng(contenderStream + uint64(i)),
		}
		if err := c.connect(r.cluster.Endpoints()); err != nil {
			return err
		}
		r.contenders = append(r.contenders, c)
	}
	return nil
}

// each does something for every contender at the same time. The channel is closed
// when all is done.
func (r *run) each(do func(int, *contender)) <-chan struct{} {
	var all sync.WaitGroup
	for i, c := range r.contenders {
		all.Go(func() { do(i, c) })
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	return done
}

// await waits for contenders to be done.
func await(done <-chan struct{}, timeout time.Duration) error {
	select {
	case <-done:
		return nil
	case <-time.After(timeout):
		return fmt.Errorf("calls of contenders do not return, %v after the last of their contexts should have ended", timeout)
	}
}

// check holds what the contenders were told against the record.
func (r *run) check() error {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	through, err := r.rec.CatchUp(ctx)
	if err != nil {
		return err
	}
	r.note(fmt.Sprintf("checking %d attempts and %d writes against %d revisions", len(r.book.attempts), len(r.book.writes), through))
	h := lockcheck.History{
		Locks: r.locks, Events: record.Through(r.rec.Events(), through), Through: through,
		Attempts: r.book.attempts, Writes: r.book.writes, Releases: r.book.releases,
		Contenders: len(r.contenders), Calm: r.calm,
	}
	verdict, err := lockcheck.Check(h)
	if err != nil {
		return err
	}
	r.result.fill(r, h, verdict)
	return nil
}

func (r *run) now() time.Duration { return time.Since(r.began) }

func (r *run) rng(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(r.cfg.Seed, stream)) }

// note writes a line to the log.
func (r *run) note(text string) {
	_, _ = fmt.Fprintf(r.cfg.Log, "%7.1fs  %s\n", r.now().Seconds(), text)
}
