// Package lockcheck checks what clients learned of their locks against what the
// store went through.
//
// A lock is etcd's: every client that wants it creates a key under the lock's
// prefix, and the oldest key, that with the lowest create revision, holds it. Every
// lock has a register, a key that only the holder may write, by a txn whose guard
// compares the holder's [Claim]. It compares with the complete history of these
// keys; nothing is taken from clocks except the order of calls and returns.
//
// [Check] has one small function for each [Promise]. Where clocks cannot decide, a
// history is taken to be right: what is reported as a violation did happen.
package lockcheck

import (
	"slices"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// Check checks a history. The error says that its events contradict themselves, so
// that nothing can be checked.
func Check(h History) (Verdict, error) {
	if _, err := watchcheck.Check(watchcheck.Reference{Events: h.Events, Through: h.Through}, nil); err != nil {
		return Verdict{}, err
	}
	c := &checker{
		History:   h,
		clock:     newClock(h.Writes),
		queues:    lineUp(h.Locks, h.Events),
		sent:      make([][]*Write, len(h.Attempts)),
		registers: make([][]registered, len(h.Locks)),
		made:      map[*Write][]int64{},
	}
	c.readRegisters()
	for _, validate := range validators {
		validate(c)
	}
	return c.verdict, nil
}

// validators holds a function for each promise, in the order in which violations
// are listed.
var validators = []func(*checker){acquired, contested, guarded, truthful, released, live}

// checker is a history that can be looked up.
type checker struct {
	History
	clock  *history.Clock
	queues *queues
	// sent has the writes of each attempt.
	sent [][]*Write
	// registers has the events of each lock's register in their order.
	registers [][]registered
	// made has the revisions at which a write was made.
	made    map[*Write][]int64
	verdict Verdict
}

// newClock returns the clock that the answers to guarded writes make, whichever they were.
func newClock(writes []Write) *history.Clock {
	answers := make([]history.Answer, 0, len(writes))
	for _, w := range writes {
		if w.Outcome != Unknown {
			answers = append(answers, history.Answer{Sent: w.Sent, Returned: w.Answered, Revision: w.Revision})
		}
	}
	return history.NewClock(answers)
}

// atLeast returns a revision that the store had reached at a moment.
func (c *checker) atLeast(at time.Duration) int64 {
	revision, _, _ := c.clock.AtLeast(at)
	return max(revision, 1)
}

// atMost returns a revision that the store had not gone beyond at a moment.
func (c *checker) atMost(at time.Duration) int64 {
	if revision, ok := c.clock.AtMost(at); ok {
		return revision
	}
	return c.Through
}

// registered is an event of a register with the write that it comes from.
type registered struct {
	*history.Event
	write *Write // nil if it was never sent
}

// readRegisters finds what became of each write.
func (c *checker) readRegisters() {
	type target struct {
		lock  int
		value string
	}
	writes := map[target]*Write{}
	for i := range c.Writes {
		w := &c.Writes[i]
		c.sent[w.Attempt] = append(c.sent[w.Attempt], w)
		writes[target{c.Attempts[w.Attempt].Lock, w.Value}] = w
	}
	for i := range c.Events {
		e := &c.Events[i]
		lock := slices.IndexFunc(c.Locks, func(l LockKeys) bool { return l.Register == e.Key })
		if lock < 0 {
			continue
		}
		w := writes[target{lock, e.Value}]
		if w != nil {
			c.made[w] = append(c.made[w], e.ModRevision)
		}
		c.registers[lock] = append(c.registers[lock], registered{e, w})
	}
}
