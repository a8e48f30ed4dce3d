// Package linear is the workload of package robustness that checks that what clients were answered is linearizable.
//
// It has callers that read, write, delete and compare a few keys through the client under
// test, some of it in RPCs that they share. Some callers have short deadlines, so that calls
// also end on their way.
//
// The keys live in groups, each for a few seconds, so that the history of a group is
// short enough to be checked: by [model.Check], while the run goes on. Before that, the
// keys are read once more. Every revision of the store must have been taken by a write
// that was made, so at the end those are counted too: a write that was executed
// twice shows there even if it was never seen.
package linear

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/lab/robustness"
)

// The promises.
const (
	// Linearizable means that one order of all operations of a group explains every
	// answer; see [model.Check].
	Linearizable robustness.Promise = "linearizable"
	// Decided means that the check of a group came to an end.
	Decided robustness.Promise = "decided"
	// Accounted means that every revision of the store belongs to a write that was
	// made once.
	Accounted robustness.Promise = "accounted"
	// Known means that the outcome of an idempotent write is known, unless its context has ended.
	Known robustness.Promise = "known"
)

const (
	// callersOfClient is how many callers share a client.
	callersOfClient = 3
	// returnTimeout bounds the time from the end of the faults to that of the calls
	// that are under way. None has more than callTimeout.
	returnTimeout = callTimeout + 20*time.Second
	// settleTimeout bounds the time from the end of the calls to that of all checks.
	settleTimeout = 2 * time.Minute
)

// workload is one run.
type workload struct {
	cfg     Config
	env     *robustness.Env
	clients []Client
	pool    *pool
	checker *checker
	// called and checked are closed when that has ended.
	called, checked <-chan struct{}
}

// Start lets callers call, while what they were answered is checked.
func (w *workload) Start(ctx context.Context, env *robustness.Env) error {
	w.env = env
	if err := w.connect(); err != nil {
		return err
	}
	w.pool = newPool(env.Now, env.Counts)
	w.checker = newChecker(w.cfg, w.clients[len(w.clients)-1], w.pool, env.Log)
	checking, abandon := context.WithCancel(context.Background())
	env.Cleanup(func() error { abandon(); return nil })
	w.checked = robustness.Go(checkers, func(int) { w.checker.run(checking, w.pool.retired) })
	w.called = robustness.Go(w.cfg.Callers, func(i int) {
		c := caller{number: i, client: w.clients[i/callersOfClient], shared: w.clients[0], pool: w.pool, rng: env.Rand(uint64(i)), now: env.Now}
		c.run(ctx)
	})
	return nil
}

// connect connects the clients of the callers, and that of the checker as the last.
func (w *workload) connect() error {
	for range (w.cfg.Callers+callersOfClient-1)/callersOfClient + 1 {
		c, err := w.cfg.connect(w.env.Cluster.Endpoints())
		if err != nil {
			return fmt.Errorf("connect a client: %w", err)
		}
		w.env.Cleanup(c.Close)
		w.clients = append(w.clients, c)
	}
	return nil
}

// Stop implements [robustness.Workload].
func (w *workload) Stop() error {
	err := robustness.Await(w.called, returnTimeout, "calls do not return, long after their contexts have ended")
	if err == nil {
		w.pool.close()
	}
	return err
}

// Settle waits until everything is checked.
func (w *workload) Settle() error {
	return robustness.Await(w.checked, settleTimeout, "the keys cannot be read or checked, long after all is well")
}

// Check counts the revisions of the store.
func (w *workload) Check(out *robustness.Outcome) error {
	err := w.checker.conclude()
	out.Revisions, _ = w.pool.claims.unclaimed()
	out.Verdict = w.checker.verdict
	for _, c := range w.clients {
		if m, ok := c.(interface{ FromMemory() int64 }); ok {
			w.env.Counts.Add("gets", "answered from memory", int(m.FromMemory()))
		}
	}
	return err
}
