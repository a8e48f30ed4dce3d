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

// workload has readers watch what writers write until the faults are over and all watches have come to the current revision. Then it
// compares what the readers saw with the record.
func (c Config) workload(ctx context.Context, env *robustness.Env) error {
	kv, err := newClient(env.Cluster.Endpoints(), 0)
	if err != nil {
		return fmt.Errorf("connect the writers: %w", err)
	}
	env.Cleanup(kv.Close)
	client, err := c.connect(env.Cluster.Endpoints())
	if err != nil {
		return fmt.Errorf("connect the readers: %w", err)
	}
	env.Cleanup(client.Close)
	compactor := &compactor{cluster: env.Cluster, rec: env.Record}
	compacted := robustness.Go(1, func(int) { compactor.run(ctx, env.Rand(compactorStream)) })
	writers := write(kv, c.Writers, env)
	readers := watch(client, c.Watches, env, func() storeState { return storeState{env.Record.Revision(), compactor.last()} })
	var seen []history.Watch
	env.Cleanup(func() (err error) {
		seen, err = readers.end()
		return err
	})
	err = env.InjectFaults(ctx)
	<-compacted
	writers.end()
	if err != nil {
		return err
	}
	settled, events, err := env.Recorded()
	if err != nil {
		return err
	}
	clock := history.NewClock(writers.acked)
	readers.settle(c.settleTimeout, func(request history.WatchRequest, returned time.Duration) int64 {
		start, known := request.StartRevision, true
		if start == 0 {
			start, known = clock.AtMost(returned)
		}
		if !known {
			return 0
		}
		return request.Last(events, start)
	})
	if err := env.Close(); err != nil {
		return err
	}
	through, events, err := env.Recorded()
	if err != nil {
		return err
	}
	for i := range seen {
		if x := &seen[i]; x.Request.StartRevision == 0 && x.Returned > 0 {
			x.StartedBy, _ = clock.AtMost(x.Returned)
		}
		env.Counts.Add("watches", ending(&seen[i]), 1)
	}
	verdict, err := watchcheck.Check(watchcheck.Reference{
		Events: events, Through: through, Settled: settled, Compactions: compactor.made,
	}, seen)
	if err != nil {
		return err
	}
	env.Revisions, env.Verdict = through, verdict.Verdict
	env.Counts.Add("history", "events", len(events))
	env.Counts.Add("history", "compactions", len(compactor.made))
	env.Counts.Add("watches", "events", int(verdict.Events))
	return nil
}

// ending says how a watch ended.
func ending(w *history.Watch) string {
	if err := w.Err(); err != nil {
		return err.Error()
	}
	return [...]string{history.StillOpen: "open to the end", history.LeftByReader: "left", history.EndedByItself: "ended"}[w.End]
}
