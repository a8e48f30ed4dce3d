package channel

import (
	"errors"
	"math/rand/v2"
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
	// tickSlack is how late a tick may be. A later one is ignored: the process was starved,
	// and responses may have arrived unread.
	tickSlack = 50 * time.Millisecond
)

// errOvertaken is the reason of a cut write.
var errOvertaken = errors.New("write abandoned: the leader changed, its member serves again, and the older write is not answered")

// writes tracks the in-flight mutating attempts of one client. It cuts those that were lost with
// their leader; etcd itself would fail them only after 7 s.
//
// A write counts as lost if it began in an earlier term than the latest in which there was
// a leader, has no response for a time after that term became known, and its member has
// completed work that began since: then the member has applied everything that the old
// leader committed. Writes that are merely delayed by a slow member are not lost.
//
// One timer runs while there are writes.
type writes struct {
	monitor *balancer.Monitor
	timeout time.Duration // negative: nothing is cut
	// term is the highest in which there was a leader, 0 if none is known. It is changed
	// with the lock held.
	term atomic.Uint64

	inFlight [writeShards]writeShard
	// ticking is set while the timer runs. A tick clears it before it checks for writes, so that
	// a write added meanwhile either starts the timer or is found by the check.
	ticking atomic.Bool

	mu     sync.Mutex
	known  time.Time     // when the term became known
	waited time.Duration // time since then while there were writes, without starved time
	timer  *time.Timer
	due    time.Time // when the timer fires, if it is set
}

// writeShards is the number of locks over which the writes in flight are spread.
const writeShards = 8

// writeShard holds some of the writes in flight, the oldest first.
type writeShard struct {
	mu          sync.Mutex
	first, last *attempt
	_           [40]byte // padding to a cache line
}

// queued is an attempt's place among the writes.
type queued struct {
	term       uint64 // in which it began
	shard      *writeShard
	next, prev *attempt
}

// add adds an attempt. A nil *writes tracks nothing.
func (w *writes) add(a *attempt) {
	if w == nil || w.timeout < 0 {
		return
	}
	s := &w.inFlight[rand.N(writeShards)]
	s.mu.Lock()
	a.queued = queued{term: w.term.Load(), shard: s, prev: s.last}
	if s.last == nil {
		s.first = a
	} else {
		s.last.queued.next = a
	}
	s.last = a
	s.mu.Unlock()
	if w.ticking.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ticking.Load() {
		w.tickLater(time.Now())
	}
}

// remove is called when the attempt has ended.
func (w *writes) remove(a *attempt) {
	if w == nil || w.timeout < 0 {
		return
	}
	q := &a.queued
	s := q.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.prev == nil {
		s.first = q.next
	} else {
		q.prev.queued.next = q.next
	}
	if q.next == nil {
		s.last = q.prev
	} else {
		q.next.queued.prev = q.prev
	}
	q.next, q.prev = nil, nil
}

// any reports whether there are writes.
func (w *writes) any() bool {
	for i := range w.inFlight {
		s := &w.inFlight[i]
		s.mu.Lock()
		first := s.first
		s.mu.Unlock()
		if first != nil {
			return true
		}
	}
	return false
}

// tickLater needs the lock.
func (w *writes) tickLater(now time.Time) {
	w.ticking.Store(true)
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
	if w.ticking.Store(false); !w.any() {
		return
	}
	w.tickLater(now)
	w.learnLocked(ledTerm(w.monitor), now)
	if w.waited < w.timeout {
		return
	}
	for i := range w.inFlight {
		w.inFlight[i].cutBefore(w.term.Load(), w.known)
	}
}

// cutBefore cuts the writes of earlier terms whose members have completed work since.
func (s *writeShard) cutBefore(term uint64, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := s.first; a != nil && a.queued.term < term; a = a.queued.next {
		if ep := a.endpoint(); a.queued.term != 0 && ep != nil && ep.CompletedSince(since) {
			a.Cut(errOvertaken)
		}
	}
}

// learn records the term in a reply to a call that needs a leader, and reports whether it
// is a new one.
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
