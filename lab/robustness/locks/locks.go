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

// workload connects the contenders and lets them contend until the faults are over, and once more after that. Then it checks what
// they learned.
func (c Config) workload(ctx context.Context, env *robustness.Env) error {
	var b book
	b.Contenders = c.Contenders
	for i := range c.Locks {
		b.Locks = append(b.Locks, lockcheck.LockKeys{Prefix: fmt.Sprintf("/locks/%v-%d/", style(i), i), Register: fmt.Sprintf("/registers/%d", i)})
	}
	contenders, failures := make([]*contender, c.Contenders), make([]error, c.Contenders)
	for i := range contenders {
		contenders[i] = &contender{index: i, cfg: c, env: env, book: &b, rng: env.Rand(uint64(i))}
		if err := contenders[i].connect(env.Cluster.Endpoints()); err != nil {
			return err
		}
	}
	rounds := robustness.Go(c.Contenders, func(i int) { failures[i] = contenders[i].contend(ctx) })
	err := env.InjectFaults(ctx)
	if err = errors.Join(err, robustness.Await(rounds, roundTimeout, late)); err != nil {
		return err
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	b.Calm = env.Now()
	settling, cancel := context.WithTimeout(context.Background(), c.settleTimeout)
	defer cancel()
	again := robustness.Go(c.Contenders, func(i int) { contenders[i].once(settling) })
	if err := errors.Join(robustness.Await(again, c.settleTimeout+roundTimeout, late), env.Close()); err != nil {
		return err
	}
	if b.Through, b.Events, err = env.Recorded(); err != nil {
		return err
	}
	env.Revisions = b.Through
	env.Verdict, err = lockcheck.Check(b.History)
	return err
}
