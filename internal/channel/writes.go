package channel

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health/etcdprobe"
)

const (
	// writesTick is how often writes in flight are checked.
	writesTick = 250 * time.Millisecond
	// tickSlack is how late a tick may be. A later one does not count: this process did not
	// run, and answers may be here and unread.
	tickSlack = 50 * time.Millisecond
)

// errOvertaken is why a write is cut.
var errOvertaken = errors.New("write abandoned: the leader changed, its member serves again, and the older write is not answered")

// writes are the attempts of mutating calls in flight to the endpoints of one client, the
// oldest first. Those that were lost with their leader are cut: etcd itself answers them
// with an error when it has waited for 7 s.
//
// A write counts as lost if it began in an earlier term than the latest in which there was
// a leader, is not answered for a time after that term became known, and its member has
// completed work that began since: then the member has applied what the old leader
// committed. What the member holds back because it is slow is not lost.
//
// One timer runs while there are writes.
type writes struct {
	monitor *balancer.Monitor
	timeout time.Duration // negative: nothing is cut
	// term is the highest in which there was a leader, 0 if none is known. It is changed
	// with the lock held.
	term atomic.Uint64

	mu          sync.Mutex
	first, last *attempt
	known       time.Time     // when the term became known
	waited      time.Duration // since then, while this process ran and there were writes
	timer       *time.Timer
	due         time.Time // when the timer fires, zero while it is not set
}

// queued is an attempt's place among the writes.
type queued struct {
	term       uint64 // in which it began
	next, prev *attempt
}

// add takes an attempt in. A nil *writes cuts nothing.
func (w *writes) add(a *attempt) {
	if w == nil || w.timeout < 0 {
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
	if w.due.IsZero() {
		w.tickLater(time.Now())
	}
}

// remove is called when the attempt has ended.
func (w *writes) remove(a *attempt) {
	if w == nil || w.timeout < 0 {
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
func (w *writes) tickLater(now time.Time) {
	w.due = now.Add(writesTick)
	if w.timer == nil {
		w.timer = time.AfterFunc(writesTick, w.tick)
		return
	}
	w.timer.Reset(writesTick)
}

func (w *writes) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.due) <= tickSlack {
		w.waited += writesTick
	}
	if w.first == nil {
		w.due = time.Time{}
		return
	}
	w.tickLater(now)
	w.learnLocked(ledTerm(w.monitor), now)
	if w.waited < w.timeout {
		return
	}
	for a := w.first; a != nil && a.queued.term < w.term.Load(); a = a.queued.next {
		if ep := a.endpoint(); a.queued.term != 0 && ep != nil && ep.CompletedSince(w.known) {
			a.Cut(errOvertaken)
		}
	}
}

// learn notes the term in which a reply was made, if it is of a call that a leader was
// needed for, and reports whether it is a new one.
func (w *writes) learn(reply any) bool {
	if w == nil {
		return false
	}
	r, ok := reply.(interface{ GetHeader() *pb.ResponseHeader })
	return ok && w.learnHeader(r.GetHeader())
}

func (w *writes) learnHeader(h *pb.ResponseHeader) bool {
	term := h.GetRaftTerm()
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
		w.known, w.waited = now, 0
	}
}

// ledTerm returns the highest term in which a member knows a leader.
func ledTerm(m *balancer.Monitor) uint64 {
	var term uint64
	for _, ep := range m.Endpoints() {
		if role := etcdprobe.RoleOf(ep.Health()); role.Leader != 0 {
			term = max(term, role.Term)
		}
	}
	return term
}
