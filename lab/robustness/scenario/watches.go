package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/load"
	"github.com/quorate/quorate/lab/robustness/report"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

const (
	// settleTimeout bounds the wait for what the watches have not delivered when the cluster
	// has been healed and nothing is written any more. It is longer than a client
	// may take to notice that a connection is dead.
	settleTimeout = 20 * time.Second
	// settlePoll is the time between two looks at whether something is undelivered.
	settlePoll = 10 * time.Millisecond
	// settleGrace is how long the watches are read on when nothing is undelivered, so
	// that what is delivered twice is seen.
	settleGrace = 300 * time.Millisecond
)

// seen keeps what the readers of the watches saw.
type seen struct {
	mu      sync.Mutex
	watches []*history.Watch
	reached []int64 // the highest revision of each reader
}

func newSeen(readers int) *seen { return &seen{reached: make([]int64, readers)} }

// watch adds a watch.
func (s *seen) watch(req history.WatchRequest, asked time.Duration) *history.Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &history.Watch{ID: len(s.watches), Request: req, Asked: asked}
	s.watches = append(s.watches, w)
	return w
}

// response adds a response to a watch. It returns how many of its events the reader had
// seen before, or later ones than they are.
func (s *seen) response(reader int, w *history.Watch, resp history.WatchResponse) (repeated int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.reached[reader]
	for _, e := range resp.Events {
		if e.ModRevision <= before {
			repeated++
		}
		s.reached[reader] = max(s.reached[reader], e.ModRevision)
	}
	w.Responses = append(w.Responses, resp)
	return repeated
}

// behind reports whether a reader has not reached the newest revision of its scope.
func (s *seen) behind(newest []int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, revision := range newest {
		if s.reached[i] < revision {
			return true
		}
	}
	return false
}

// newestOf returns the revision of the last event of each scope, 0 if there is none.
func newestOf(scopes []history.Scope, prefix string, events []history.Event) []int64 {
	newest := make([]int64, len(scopes))
	for _, e := range events {
		key, err := history.ParseKey(prefix, e.Key)
		for i, scope := range scopes {
			if err == nil && scope.Includes(key) {
				newest[i] = e.ModRevision
			}
		}
	}
	return newest
}

// watchLog records one watch; it implements [load.WatchLog].
type watchLog struct {
	run    *run
	reader int
	watch  *history.Watch
}

// Watch implements [load.Recorder].
func (r *run) Watch(reader int, req history.WatchRequest, asked time.Duration) load.WatchLog {
	req.RequireLeader = req.RequireLeader || r.conn.RequireLeader
	return &watchLog{run: r, reader: reader, watch: r.seen.watch(req, asked)}
}

// Returned implements [load.WatchLog].
func (l *watchLog) Returned(at time.Duration) { l.watch.Returned = at }

// Delivered implements [load.WatchLog].
func (l *watchLog) Delivered(resp history.WatchResponse) {
	if repeated := l.run.seen.response(l.reader, l.watch, resp); repeated > 0 {
		l.run.meter.Repeat(repeated)
	}
	keys := make([]history.Key, 0, len(resp.Events))
	for _, e := range resp.Events {
		if key, err := history.Written(l.run.prefix(), e); err == nil { // what is none of ours is for the check to report
			keys = append(keys, key)
		}
	}
	l.run.meter.Deliver(l.reader, keys, resp.At)
}

// Ended implements [load.WatchLog].
func (l *watchLog) Ended(end load.WatchEnd) {
	if end.Ending == history.EndedByItself {
		l.run.meter.EndWatch(end.Code, end.Err)
	}
	l.watch.Ended, l.watch.End = end.At, end.Ending
}

// settleWatches returns settleGrace after every watch has delivered the newest event
// in its scope, and after settleTimeout at the latest.
func (r *run) settleWatches(ctx context.Context, newest []int64) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for r.seen.behind(newest) {
		if pause.For(ctx, settlePoll) != nil {
			return
		}
	}
	_ = pause.For(ctx, settleGrace) // no longer than settleTimeout in all
}

// evaluate compares the watches, which must have ended, with the history of the store.
func (s *seen) evaluate(reference watchcheck.Reference) (report.WatchCheck, error) {
	watches := make([]history.Watch, len(s.watches))
	for i, w := range s.watches {
		watches[i] = *w
	}
	verdict, err := watchcheck.Check(reference, watches)
	if err != nil {
		return report.WatchCheck{}, fmt.Errorf("check the watches: %w", err)
	}
	return report.WatchCheck{Verdict: verdict, Through: reference.Through}, nil
}
