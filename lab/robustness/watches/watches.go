// Package watches is the workload of package robustness that checks everything that the readers of watches saw.
//
// It has writers that put and delete few keys again and
// again, alone, many in one txn, by the end of leases and in bursts; readers that watch keys
// and ranges in every way the API has, some slowly, some leaving and taking over
// from their own last revision; a caller that requests bookmarks; and a compactor.
//
// When the faults are over the writers stop, and every watch that is open must come to the last revision; then
// [watchcheck.Check] compares all of them with the record.
package watches

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness"
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

// workload is one run.
type workload struct {
	cfg       Config
	env       *robustness.Env
	kv        *clientv3.Client
	client    Client
	writers   *writers
	readers   *readers
	compactor *compactor
	compacted <-chan struct{} // closed when the compactor has ended
	settled   int64           // the revision at which the store settled
	watches   []history.Watch
}

// Start implements [robustness.Workload].
func (w *workload) Start(ctx context.Context, env *robustness.Env) (err error) {
	w.env = env
	if w.kv, err = newClient(env.Cluster.Endpoints(), 0); err != nil {
		return fmt.Errorf("connect the writers: %w", err)
	}
	env.Cleanup(w.kv.Close)
	if w.client, err = w.cfg.connect(env.Cluster.Endpoints()); err != nil {
		return fmt.Errorf("connect the readers: %w", err)
	}
	env.Cleanup(w.client.Close)
	w.compactor = &compactor{cluster: env.Cluster, rec: env.Record}
	w.compacted = robustness.Go(1, func(int) { w.compactor.run(ctx, env.Rand(compactorStream)) })
	w.writers = write(w.kv, w.cfg.Writers, env)
	w.readers = watch(w.client, w.cfg.Watches, env, w.known)
	env.Cleanup(func() (err error) {
		w.watches, err = w.readers.end()
		return err
	})
	return nil
}

// Stop implements [robustness.Workload].
func (w *workload) Stop() error {
	<-w.compacted
	w.writers.end()
	return nil
}

// Settle waits until all open watches have come to the current revision.
func (w *workload) Settle() error {
	settled, events, err := w.env.Recorded()
	if err != nil {
		return err
	}
	w.settled = settled
	clock := history.NewClock(w.writers.acked)
	w.readers.settle(w.cfg.settleTimeout, func(request history.WatchRequest, returned time.Duration) int64 {
		start, known := request.StartRevision, true
		if start == 0 {
			start, known = clock.AtMost(returned)
		}
		if !known {
			return 0
		}
		return request.Last(events, start)
	})
	return nil
}

// Check compares what the readers saw with the record.
func (w *workload) Check(out *robustness.Outcome) error {
	through, events, err := w.env.Recorded()
	if err != nil {
		return err
	}
	clock := history.NewClock(w.writers.acked)
	for i := range w.watches {
		if x := &w.watches[i]; x.Request.StartRevision == 0 && x.Returned > 0 {
			x.StartedBy, _ = clock.AtMost(x.Returned)
		}
	}
	compactions := w.compactor.made // it has ended
	verdict, err := watchcheck.Check(watchcheck.Reference{
		Events: events, Through: through, Settled: w.settled, Compactions: compactions,
	}, w.watches)
	if err != nil {
		return err
	}
	out.Revisions, out.Verdict = through, verdict.Verdict
	out.Counts.Add("history", "events", len(events))
	out.Counts.Add("history", "compactions", len(compactions))
	out.Counts.Add("watches", "events", int(verdict.Events))
	for i := range w.watches {
		out.Counts.Add("watches", ending(&w.watches[i]), 1)
	}
	return nil
}

// ending says how a watch ended.
func ending(w *history.Watch) string {
	if err := w.Err(); err != nil {
		return err.Error()
	}
	return [...]string{history.StillOpen: "open to the end", history.LeftByReader: "left", history.EndedByItself: "ended"}[w.End]
}

func (w *workload) known() storeState {
	return storeState{revision: w.env.Record.Revision(), compacted: w.compactor.last()}
}
