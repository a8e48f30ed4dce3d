package watch

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// Standing is the state of one watch.
type Standing struct {
	Key   []byte // must not be changed
	Range bool
	Phase Phase
	// Next is the first revision that it has not received, 0 if unknown.
	Next int64
	// Unread is the number of responses that wait for the reader, Bytes their size, and
	// Blocked how long the next one has waited.
	Unread, Bytes int
	Blocked       time.Duration
}

// Phase is what a watch is doing.
type Phase uint8

// Phases of a watch.
const (
	Opening Phase = iota
	Interrupted
	CatchingUp
	Following
	Paused
)

// Inspection is a snapshot of the state of engines.
type Inspection struct {
	Open    int
	ByPhase [Paused + 1]int
	Streams int
	// Oldest is the lowest Next of those that are not Following, 0 if there is none.
	Oldest  int64
	Blocked time.Duration // the longest
	// Furthest holds the watches that are furthest behind, up to the limit.
	Furthest []Standing
}

// Inspect adds the state of the engine to in.
func (e *Engine) Inspect(limit int, in *Inspection) {
	now := time.Now()
	e.mu.Lock()
	shards := e.shardsLocked()
	e.mu.Unlock()
	for _, sh := range shards {
		in.Furthest = append(in.Furthest, sh.inspect(now, in)...)
		slices.SortFunc(in.Furthest, further)
		in.Furthest = in.Furthest[:min(len(in.Furthest), limit)]
	}
}

// further sorts the watches that are further behind first.
func further(a, b Standing) int {
	return cmp.Or(
		cmp.Compare(b.Blocked, a.Blocked), cmp.Compare(b.Bytes, a.Bytes),
		cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Next, b.Next), bytes.Compare(a.Key, b.Key),
	)
}

func (sh *shard) inspect(now time.Time, in *Inspection) []Standing {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.session.connected {
		in.Streams++
	}
	all := make([]Standing, 0, len(sh.watchers))
	for w := range sh.watchers {
		s := w.standingLocked(sh, now)
		in.Open++
		in.ByPhase[s.Phase]++
		in.Blocked = max(in.Blocked, s.Blocked)
		if s.Phase != Following && s.Next > 0 && (in.Oldest == 0 || s.Next < in.Oldest) {
			in.Oldest = s.Next
		}
		all = append(all, s)
	}
	return all
}

func (w *watcher) standingLocked(sh *shard, now time.Time) Standing {
	s := Standing{Key: w.req.Key, Range: len(w.req.End) > 0, Phase: w.shownPhase(sh), Next: w.current.next}
	if w.catchup != nil {
		s.Next = w.catchup.current().next
	}
	w.buffer.inspect(now, &s)
	return s
}

func (w *watcher) shownPhase(sh *shard) Phase {
	switch {
	case w.phase == opening:
		return Opening
	case w.phase == paused:
		return Paused
	case !sh.session.connected || w.current.state != live && w.catchup == nil:
		return Interrupted
	case w.catchup != nil || w.current.next != 0 && w.current.next <= w.current.created:
		return CatchingUp
	default:
		return Following
	}
}

func (b *buffer) inspect(now time.Time, s *Standing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.pumping {
		return
	}
	s.Unread, s.Bytes = len(b.waiting), b.bytes
	if b.offered != 0 {
		s.Unread++ // the response offered to the reader
		s.Blocked = max(now.Sub(time.Unix(0, b.offered)), 0)
	}
}
