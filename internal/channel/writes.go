package channel

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/health"
)

const (
	// overtakenAfter is how long after the client heard of a new leader a write that
	// is older may still be answered. A write that outlived the change is in the new
	// leader's log, or waits at its member for there to be a leader; either way it is
	// committed within a round trip and a sync to disk. One that was lost with the old
	// leader is answered with an error when the member has waited for it for 7 s.
	overtakenAfter = time.Second

	// overtakenTick is how often that is looked at while writes are under way.
	overtakenTick = overtakenAfter / 4
)

// errOvertaken is why a write is given up.
var errOvertaken = errors.New("the cluster has had a new leader for a second, and the write, which is older, is not answered")

// writes are the attempts of mutating calls under way to the endpoints of one
// client, the oldest first. Those that a new leader has overtaken are cut: what
// became of them is unknown, and will not be known any sooner by waiting.
//
// The term is learnt from the answers to calls that a leader was needed for, and
// from the roles that members state to probes. One timer runs while there are
// writes.
type writes struct {
	table *health.Table
	// term is the highest in which there was a leader, 0 if none is known. It is
	// changed with the lock held.
	term atomic.Uint64

	mu          sync.Mutex
	first, last *attempt
	since       time.Time // when the client heard of the term
	timer       *time.Timer
	ticking     bool
}

// queued is an attempt's place among the writes.
type queued struct {
	term       uint64 // in which it began
	next, prev *attempt
}

// add takes an attempt in. A nil *writes overtakes nothing.
func (w *writes) add(a *attempt) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a.queued = queued{term: w.term.Load(), prev: w.last}
	if w.last == nil {
		w.first = a
	} else {
		w.last.queued.next = a
	}
	w.last = a
	if !w.ticking {
		w.tickLater()
	}
}

// remove is called when the attempt has ended.
func (w *writes) remove(a *attempt) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	q := &a.queued
	if q.prev == nil {
		w.first = q.next
	} else {
		q.prev.queued.next = q.next
	}
	if q.next == nil {
		w.last = q.prev
	} else {
		q.next.queued.prev = q.prev
	}
	q.next, q.prev = nil, nil
}

// tickLater needs the lock.
func (w *writes) tickLater() {
	w.ticking = true
	if w.timer == nil {
		w.timer = time.AfterFunc(overtakenTick, w.tick)
		return
	}
	w.timer.Reset(overtakenTick)
}

func (w *writes) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil {
		w.ticking = false
		return
	}
	w.tickLater()
	now := time.Now()
	if w.table.Term() > w.term.Load() {
		w.learnLocked(ledTerm(w.table), now)
	}
	if now.Sub(w.since) < overtakenAfter {
		return
	}
	for a := w.first; a != nil && a.queued.term < w.term.Load(); a = a.queued.next {
		if a.queued.term != 0 {
			a.Cut(errOvertaken)
		}
	}
}

// learn notes the term in which a reply was made, if it is of a call that a leader
// was needed for, and reports whether it is a new one.
func (w *writes) learn(reply any) bool {
	if w == nil {
		return false
	}
	r, ok := reply.(interface{ GetHeader() *pb.ResponseHeader })
	if !ok {
		return false
	}
	term := r.GetHeader().GetRaftTerm()
	if term <= w.term.Load() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.learnLocked(term, time.Now())
	return true
}

func (w *writes) learnLocked(term uint64, now time.Time) {
	if term > w.term.Load() {
		w.term.Store(term)
		w.since = now
	}
}

// ledTerm returns the highest term in which a member knows a leader.
func ledTerm(t *health.Table) uint64 {
	var term uint64
	for _, s := range t.All() {
		if s.Role.Leader != 0 {
			term = max(term, s.Role.Term)
		}
	}
	return term
}
