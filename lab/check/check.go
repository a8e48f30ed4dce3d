// Package check checks what the load saw: was a write lost that had been
// acknowledged, was one applied that had been refused, or twice, and did a
// linearizable answer ever go back behind an older one?
//
// A [Checker] gets each call when it is invoked and again when it has
// returned; the answer is compared with what it knew at the invocation,
// so only calls that really followed each other are compared. When the load has
// ended, an [Audit] compares the store, read back key by key, with what the
// callers were answered.
//
// It costs eight bytes for each write, a byte more during the audit, and nothing
// for a read: ten minutes of a thousand writes a second take about 5 MB.
package check

import (
	"fmt"
	"sync"

	"github.com/quorate/quorate/lab/history"
)

// Checker checks the calls of one run. Its methods may be called concurrently.
// Make one with [New].
type Checker struct {
	mu sync.Mutex
	// newest is the linearizable answer with the highest revision so far.
	newest *history.Call
	// counters holds, for each caller's counter, the linearizable answer that
	// saw its latest write, and what became of the increments.
	counters map[int]*counter
	ledgers  map[outcomesID]*outcomes
	verdict  Verdict
}

// counter is what is known of one counter.
type counter struct {
	newest *history.Call
	// acknowledged and unknown count increments by their outcome for the caller;
	// one that has not returned counts as unknown.
	acknowledged, unknown int64
}

// Ticket holds what was known when a call was invoked.
type Ticket struct {
	newest       *history.Call // the newest linearizable answer, or nil
	counter      *history.Call // the same for the counter that the call reads, or nil
	acknowledged int64         // the revision at which the read key was acknowledged, or 0
}

// New returns a checker that has seen nothing.
func New() *Checker {
	return &Checker{counters: map[int]*counter{}, ledgers: map[outcomesID]*outcomes{}}
}

// Invoke notes that a call is about to be sent and returns the ticket that its
// [Checker.Return] needs. The keys that one caller writes must be invoked in
// the order of their sequence numbers.
func (c *Checker) Invoke(call history.Call) Ticket {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := Ticket{newest: c.newest}
	switch {
	case call.Kind.Writes():
		c.ledger(call.Key).begin(call.Key.Seq)
		if call.Kind == history.Txn {
			n := c.counter(call.Key.Caller)
			n.unknown++
			t.counter = n.newest
		}
	case call.Key.Space == history.Counters:
		t.counter = c.counter(call.Key.Caller).newest
	default:
		t.acknowledged = max(0, c.ledger(call.Key).state(call.Key.Seq))
	}
	return t
}

// Return records how a call ended and checks its answer. For a serializable get
// it returns how many revisions the answer was behind the newest that was known
// at the invocation, which is allowed; otherwise 0.
func (c *Checker) Return(t Ticket, call history.Call) (behind int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.Kind.Writes() {
		c.settle(call)
	}
	if call.Outcome != history.OK {
		return 0
	}
	if call.Kind == history.SerializableGet {
		return c.evaluateSerializable(t, call)
	}
	c.verdict.LinearizableAnswers++
	c.evaluate(t, call)
	c.learn(call)
	return 0
}

// settle enters the outcome of a write into the books.
func (c *Checker) settle(call history.Call) {
	l := c.ledger(call.Key)
	switch {
	case call.Outcome == history.OK && (call.Kind == history.Put || call.Applied):
		l.end(call.Key.Seq, call.Revision)
	case call.Outcome == history.OK:
		l.end(call.Key.Seq, refused)
	case call.Outcome == history.Failed:
		l.end(call.Key.Seq, refused)
	default:
		return
	}
	if call.Kind != history.Txn {
		return
	}
	n := c.counter(call.Key.Caller)
	n.unknown--
	if call.Outcome == history.OK && call.Applied {
		n.acknowledged++
	}
}

// evaluate holds a linearizable answer against what was known when it was invoked.
func (c *Checker) evaluate(t Ticket, call history.Call) {
	if t.newest != nil {
		wrote := call.Kind == history.Put || call.Applied
		if call.Revision < t.newest.Revision || wrote && call.Revision == t.newest.Revision {
			c.verdict.add(WentBackwards, fmt.Sprintf(
				"%s answered at revision %d although revision %d had been answered before it was sent",
				call.Kind, call.Revision, t.newest.Revision), *t.newest, call)
		}
	}
	if t.counter != nil {
		if known, got := counterRevision(*t.counter), counterRevision(call); got < known {
			c.verdict.add(WentBackwards, fmt.Sprintf(
				"%s saw %s as of revision %d although its write at revision %d had been answered before it was sent",
				call.Kind, history.CounterOf(call.Key.Caller), got, known), *t.counter, call)
		}
	}
	if t.acknowledged > 0 {
		c.evaluateUnique(t.acknowledged, call)
	}
}

// evaluateSerializable checks an answer that may be old, but must be what the store
// was at the revision that it names. It returns how many revisions it is behind.
func (c *Checker) evaluateSerializable(t Ticket, call history.Call) (behind int64) {
	c.verdict.SerializableReads++
	if t.newest != nil {
		behind = max(0, t.newest.Revision-call.Revision)
	}
	c.verdict.MaxBehind = max(c.verdict.MaxBehind, behind)
	if t.acknowledged > 0 && call.Revision >= t.acknowledged {
		c.evaluateUnique(t.acknowledged, call)
	}
	return behind
}

// evaluateUnique checks a read, no older than the given revision, of a key whose
// only write was acknowledged at that revision before the read was sent.
func (c *Checker) evaluateUnique(acknowledged int64, call history.Call) {
	switch {
	case !call.Read.Found:
		c.verdict.add(LostWrite, fmt.Sprintf("%s was acknowledged at revision %d, and a later %s does not find it",
			call.Key, acknowledged, call.Kind), call)
	case call.Read.ModRevision != acknowledged:
		c.verdict.add(AppliedTwice, fmt.Sprintf("%s was written once, acknowledged at revision %d, and is found at revision %d",
			call.Key, acknowledged, call.Read.ModRevision), call)
	case call.Read.Value != call.Key.Value():
		c.verdict.add(WrongValue, fmt.Sprintf("%s holds %q instead of %q", call.Key, call.Read.Value, call.Key.Value()), call)
	}
}

// learn raises what later calls are held against.
func (c *Checker) learn(call history.Call) {
	if c.newest == nil || call.Revision > c.newest.Revision {
		c.newest = &call
	}
	if call.Kind != history.Txn && call.Key.Space != history.Counters {
		return
	}
	n := c.counter(call.Key.Caller)
	if n.newest == nil || counterRevision(call) > counterRevision(*n.newest) {
		n.newest = &call
	}
}

// counterRevision returns the revision of a counter's last write as an answer
// shows it; 0 if the counter did not exist.
func counterRevision(call history.Call) int64 {
	if call.Kind == history.Txn && call.Applied {
		return call.Revision
	}
	return call.Read.ModRevision
}

func (c *Checker) counter(caller int) *counter {
	n := c.counters[caller]
	if n == nil {
		n = &counter{}
		c.counters[caller] = n
	}
	return n
}

func (c *Checker) ledger(k history.Key) *outcomes {
	id := outcomesID{k.Space, k.Caller}
	l := c.ledgers[id]
	if l == nil {
		l = &outcomes{}
		c.ledgers[id] = l
	}
	return l
}
