// Package locks is the workload of package robustness that lets many programs contend for few locks, and checks that no lock was held
// by two.
//
// Each contender has a client, a session with a
// short lease and a link to every member of its own. Round after round a contender
// takes a mutex or an election, by Lock, TryLock or Campaign, writes to the lock's
// register in txns that are guarded by the lock, and gives it up: by Unlock or
// Resign, by closing the session, by leaving the session to expire, or by the sudden
// end of its client. Some contenders are paused past their lease, as programs are
// whose host sleeps: while they wait, while they hold the lock, or with a guarded
// write on its way; then they go on as if nothing had happened.
//
// When the faults are over every contender takes a lock once more; then [lockcheck.Check] compares what they learned with the
// record.
package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// roundTimeout bounds the time from the end of the faults to that of the rounds
// that are under way: a session, a lock, all writes and the end of the session,
// each in the time it may take.
const roundTimeout = time.Minute

// late is what a run fails with when calls outlast that.
const late = "calls of contenders do not return, long after the last of their contexts should have ended"

// workload is one run.
type workload struct {
	cfg        Config
	env        *robustness.Env
	contenders []*contender
	book       book
	failures   []error         // of the contenders
	rounds     <-chan struct{} // closed when all have ended
}

// Start makes the locks, connects the contenders and lets them contend.
func (w *workload) Start(ctx context.Context, env *robustness.Env) error {
	w.env = env
	w.book.Contenders = w.cfg.Contenders
	for i := range w.cfg.Locks {
		w.book.Locks = append(w.book.Locks, lockcheck.LockKeys{Prefix: fmt.Sprintf("/locks/%v-%d/", style(i), i), Register: fmt.Sprintf("/registers/%d", i)})
	}
	for i := range w.cfg.Contenders {
		c := &contender{index: i, cfg: w.cfg, env: env, book: &w.book, rng: env.Rand(uint64(i))}
		if err := c.connect(env.Cluster.Endpoints()); err != nil {
			return err
		}
		w.contenders = append(w.contenders, c)
	}
	w.failures = make([]error, len(w.contenders))
	w.rounds = robustness.Go(len(w.contenders), func(i int) { w.failures[i] = w.contenders[i].contend(ctx) })
	return nil
}

// Stop implements [robustness.Workload].
func (w *workload) Stop() error {
	if err := robustness.Await(w.rounds, roundTimeout, late); err != nil {
		return err
	}
	return errors.Join(w.failures...)
}

// Settle lets every contender take a lock once more.
func (w *workload) Settle() error {
	w.book.Calm = w.env.Now()
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.settleTimeout)
	defer cancel()
	again := robustness.Go(len(w.contenders), func(i int) { w.contenders[i].once(ctx) })
	return robustness.Await(again, w.cfg.settleTimeout+roundTimeout, late)
}

// Check compares what the contenders learned with the record.
func (w *workload) Check(out *robustness.Outcome) error {
	var err error
	if w.book.Through, w.book.Events, err = w.env.Recorded(); err != nil {
		return err
	}
	out.Revisions = w.book.Through
	out.Verdict, err = lockcheck.Check(w.book.History)
	return err
}
