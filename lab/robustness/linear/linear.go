// Package linear is the workload of package robustness that checks that what clients were answered is linearizable.
//
// It has callers that read, write, delete and compare a few keys through the client under
// test, some of it in RPCs that they share. Some callers have short deadlines, so that calls
// also end on their way.
//
// The keys live in groups, each for a few seconds, so that the history of a group is
// short enough to be checked, with the record of the store, by [model.Record.Check].
package linear

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// The promises.
const (
	// Linearizable means that one order of all operations of a group explains every
	// answer and every event of the store; see [model.Check].
	Linearizable robustness.Promise = "linearizable"
	// Known means that the outcome of an idempotent write is known, unless its context has ended.
	Known robustness.Promise = "known"
)

const (
	// callersOfClient is how many callers share a client.
	callersOfClient = 3
	// returnTimeout bounds the time from the end of the faults to that of the calls
	// that are under way. None has more than callTimeout.
	returnTimeout = callTimeout + 20*time.Second
	// checkTimeout bounds the check of one history. One that is not decided by then
	// counts as a violation. A few milliseconds are usual.
	checkTimeout = 30 * time.Second
)

// workload is one run.
type workload struct {
	cfg     Config
	env     *robustness.Env
	clients []Client
	pool    *pool
	called  <-chan struct{} // closed when all callers have ended
}

// Start lets callers call.
func (w *workload) Start(ctx context.Context, env *robustness.Env) error {
	w.env = env
	for range (w.cfg.Callers + callersOfClient - 1) / callersOfClient {
		c, err := w.cfg.connect(env.Cluster.Endpoints())
		if err != nil {
			return fmt.Errorf("connect a client: %w", err)
		}
		env.Cleanup(c.Close)
		w.clients = append(w.clients, c)
	}
	w.pool = newPool(env.Now, env.Counts)
	w.called = robustness.Go(w.cfg.Callers, func(i int) {
		c := caller{number: i, client: w.clients[i/callersOfClient], shared: w.clients[0], pool: w.pool, rng: env.Rand(uint64(i)), now: env.Now}
		c.run(ctx)
	})
	return nil
}

// Stop implements [robustness.Workload].
func (w *workload) Stop() error {
	return robustness.Await(w.called, returnTimeout, "calls do not return, long after their contexts have ended")
}

// Settle implements [robustness.Workload]: nothing is under way.
func (w *workload) Settle() error { return nil }

// Check compares what the callers were answered with the record.
func (w *workload) Check(out *robustness.Outcome) error {
	through, events, err := w.env.Recorded()
	if err != nil {
		return err
	}
	out.Revisions = through
	for _, c := range w.clients {
		if m, ok := c.(interface{ FromMemory() int64 }); ok {
			out.Counts.Add("gets", "answered from memory", int(m.FromMemory()))
		}
	}
	return w.check(model.NewRecord(keyPrefix, events, through), out)
}

// check checks each group. The error is that of writing the page of a violation.
func (w *workload) check(record *model.Record, out *robustness.Outcome) error {
	if early := out.Counts.Of("writes", unknownEarly); w.cfg.Idempotent && early > 0 {
		out.Verdict.Add(Known, "%d writes ended in an unknown outcome before their contexts ended", early)
	}
	for number, g := range w.pool.groups {
		began := time.Now()
		finding := record.Check(g.keys, g.operations, checkTimeout)
		out.Counts.Add("groups", "checked", 1)
		out.Counts.Max("groups", "operations at most", len(g.operations))
		out.Counts.Max("groups", "ms to check at most", int(time.Since(began).Milliseconds()))
		out.Counts.Add("writes", "unknown and never seen", finding.Unseen)
		if finding.Verdict == model.Linearizable {
			continue
		}
		violation := out.Verdict.Add(Linearizable, "group %d: %s: %s", number, finding.Verdict, finding.Message)
		if out.Verdict.Counts[Linearizable] > tally.MaxKept {
			continue
		}
		violation.Page = filepath.Join(w.cfg.PageDir, fmt.Sprintf("linear-seed%d-group%d.html", w.cfg.Seed, number))
		if err := save(violation.Page, finding); err != nil {
			return fmt.Errorf("show a violation: %w", err)
		}
	}
	if e, found := record.Stray(); found {
		out.Verdict.Add(Linearizable, "%v: no operation is on that key", e)
	}
	return nil
}

// save writes the page of a violation, and makes the directory for it.
func save(name string, finding model.Finding) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	page, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(finding.Visualize(page), page.Close())
}
