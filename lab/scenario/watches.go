package scenario

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/load"
	"github.com/quorate/quorate/lab/report"
	"github.com/quorate/quorate/lab/watchcheck"
)

const (
	// maxSeen bounds the events that are kept for the check at the end: some 200 MB.
	// A run of all faults sees a quarter of it.
	maxSeen = 1_000_000
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
	room    int // for further events
	cut     bool
	// newest is the highest revision kept, and reached that of each reader, whether
	// kept or not.
	newest  int64
	reached []int64
}

func newSeen(readers int) *seen { return &seen{room: maxSeen, reached: make([]int64, readers)} }

// watch adds a watch; nil is returned when no more are kept.
func (s *seen) watch(req history.WatchRequest, asked time.Duration) *history.Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return nil
	}
	w := &history.Watch{ID: len(s.watches), Request: req, Asked: asked}
	s.watches = append(s.watches, w)
	return w
}

// response adds a response to a watch, which may be nil. It returns how many of its
// events the reader had seen before, or later ones than they are.
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
	s.cut = s.cut || len(resp.Events) > s.room
	if w == nil || s.cut {
		return repeated
	}
	s.room -= len(resp.Events)
	s.newest = max(s.newest, s.reached[reader])
	w.Responses = append(w.Responses, resp)
	return repeated
}

// ended notes how a watch ended, which may be nil. If it was cut before, it is not known
// what led to its end: it counts as open then.
func (s *seen) ended(w *history.Watch, end load.WatchEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w == nil {
		return
	}
	w.Ended = end.At
	if !s.cut {
		w.End = end.Ending
	}
}

// cutAt returns the last revision of which something was kept, if not everything
// was.
func (s *seen) cutAt() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return s.newest
	}
	return math.MaxInt64
}

// behind reports whether a reader has not seen the newest change of its scope.
func (s *seen) behind(scopes []history.Scope, newest map[history.Scope]int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, scope := range scopes {
		if s.reached[i] < newest[scope] {
			return true
		}
	}
	return false
}

// watchLog records one watch; it implements [load.WatchLog].
type watchLog struct {
	run    *run
	reader int
	watch  *history.Watch // nil if it is not kept
}

// Watch implements [load.Recorder].
func (r *run) Watch(reader int, req history.WatchRequest, asked time.Duration) load.WatchLog {
	req.RequireLeader = req.RequireLeader || r.requireLeader
	return &watchLog{run: r, reader: reader, watch: r.seen.watch(req, asked)}
}

// Returned implements [load.WatchLog].
func (l *watchLog) Returned(at time.Duration) {
	if l.watch != nil {
		l.watch.Returned = at
	}
}

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
	l.run.seen.ended(l.watch, end)
}

// evaluateWatches waits until the watches have delivered all events, ends them and
// holds what they delivered against the reference.
func (r *run) evaluateWatches(ctx context.Context, ref *reference) (report.WatchCheck, error) {
	r.display.phase("waiting for the watches")
	r.settleWatches(ctx, ref)
	r.load.EndWatches()
	if !r.checker.Verdict().OK() {
		return report.WatchCheck{Skipped: "what the callers were told is not what the store holds"}, nil
	}
	r.display.phase("checking the watches")
	return r.seen.evaluate(ref, r.lost())
}

// lost returns how many events the watches have not delivered.
func (r *run) lost() int64 {
	var n int64
	for _, row := range r.meter.Rows(r.now()) {
		n += row.Watches.Undelivered
	}
	return n
}

// settleWatches returns settleGrace after every watch has delivered the newest change
// in its scope, and after settleTimeout at the latest.
func (r *run) settleWatches(ctx context.Context, ref *reference) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	scopes := history.Scopes(r.cfg.Callers)
	for r.seen.behind(scopes, ref.newest) {
		if pause.For(ctx, settlePoll) != nil {
			return
		}
	}
	_ = pause.For(ctx, settleGrace) // no longer than settleTimeout in all
}

// evaluate holds the watches, which must have ended, against the reference. lost is how
// many events they have not delivered, whether their responses were kept or not.
func (s *seen) evaluate(ref *reference, lost int64) (report.WatchCheck, error) {
	out := report.WatchCheck{Through: min(ref.revision, s.cutAt())}
	against := watchcheck.Reference{Events: ref.complete(), Through: out.Through}
	if !s.cut {
		against.Settled = out.Through
	}
	watches := make([]history.Watch, len(s.watches))
	for i, w := range s.watches {
		watches[i] = *w
		watches[i].Responses = upTo(out.Through, w.Responses)
	}
	var err error
	if out.Verdict, err = watchcheck.Check(against, watches); err != nil {
		return report.WatchCheck{}, fmt.Errorf("check the watches: %w", err)
	}
	if s.cut && lost > 0 {
		addLost(&out.Verdict, lost, out.Through)
	}
	return out, nil
}

// addLost adds to a verdict what the count of the deliveries shows and the responses
// that were kept may not: that some never came.
func addLost(v *watchcheck.Verdict, lost, through int64) {
	v.Add(watchcheck.Reliable, "%d events were owed and never delivered; what was delivered after revision %d was not kept, so that "+
		"which events they are is known in part at most", lost, through)
}

// upTo returns the responses without what is later than a revision, which can only
// be a write of unknown outcome that was executed at the very last.
func upTo(through int64, responses []history.WatchResponse) []history.WatchResponse {
	for i, resp := range responses {
		late := slices.IndexFunc(resp.Events, func(e history.Event) bool { return e.ModRevision > through })
		switch {
		case late == 0:
			return responses[:i]
		case late > 0:
			resp.Events = resp.Events[:late]
			return append(slices.Clone(responses[:i]), resp)
		}
	}
	return responses
}
