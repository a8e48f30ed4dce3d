package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/quorate/quorate/lab/history"
)

// Stored is a key as it was read back.
type Stored struct {
	// Key that was found.
	Key history.Key
	// Value found there.
	Value string
	// ModRevision is the revision of its last write.
	ModRevision int64
	// Version counts the writes of the key since it was created.
	Version int64
}

// Audit compares the store with the answers that callers got. It belongs to
// one goroutine; no call may be in flight while it lasts.
type Audit struct {
	c *Checker
	// found marks the written-once keys that were read back, by sequence number.
	found map[outcomesID][]bool
	// counters holds the counters that were read back, by caller.
	counters map[int]counterRead
	// increments counts, by caller, the keys found beside its counter.
	increments map[int]int64
}

// counterRead is a counter as it was read back.
type counterRead struct {
	value, modRevision int64
}

// Audit begins the comparison. Every key of the run must be passed to
// [Audit.See], all read at one revision, before [Audit.Finish].
func (c *Checker) Audit() *Audit {
	return &Audit{c: c, found: map[outcomesID][]bool{}, counters: map[int]counterRead{}, increments: map[int]int64{}}
}

// Verdict returns what has been found so far.
func (c *Checker) Verdict() Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.verdict
	v.Violations = slices.Clone(v.Violations)
	v.Counts = maps.Clone(v.Counts)
	return v
}

// See records one key that was read back.
func (a *Audit) See(s Stored) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	if s.Key.Space == history.Counters {
		a.seeCounter(s)
		return
	}
	v := &a.c.verdict
	l := a.c.ledger(s.Key)
	if !l.invoked(s.Key.Seq) {
		v.add(WrongValue, fmt.Sprintf("%s exists and was never written", s.Key))
		return
	}
	a.mark(s.Key, l)
	state := l.state(s.Key.Seq)
	switch {
	case state == refused:
		v.add(RefusedApplied, fmt.Sprintf("%s exists, written at revision %d, although its caller was told that the write had no effect",
			s.Key, s.ModRevision))
	case s.Version != 1:
		v.add(AppliedTwice, fmt.Sprintf("%s was sent once and written %d times, last at revision %d",
			s.Key, s.Version, s.ModRevision))
	case state != unknown && state != s.ModRevision:
		v.add(AppliedTwice, fmt.Sprintf("%s was acknowledged at revision %d and is found at revision %d",
			s.Key, state, s.ModRevision))
	case s.Value != s.Key.Value():
		v.add(WrongValue, fmt.Sprintf("%s holds %q instead of %q", s.Key, s.Value, s.Key.Value()))
	}
	if state == unknown {
		v.UnknownApplied++
	}
}

func (a *Audit) seeCounter(s Stored) {
	value, err := strconv.ParseInt(s.Value, 10, 64)
	if err != nil {
		a.c.verdict.add(WrongValue, fmt.Sprintf("%s holds %q, which is not a number", s.Key, s.Value))
		return
	}
	a.counters[s.Key.Caller] = counterRead{value, s.ModRevision}
}

func (a *Audit) mark(k history.Key, l *outcomes) {
	id := outcomesID{k.Space, k.Caller}
	if a.found[id] == nil {
		a.found[id] = make([]bool, len(l.writes))
	}
	a.found[id][k.Seq] = true
	if k.Space == history.Txns {
		a.increments[k.Caller]++
	}
}

// Finish ends the audit: whatever was acknowledged and not seen is missing.
// revision is the one at which the keys were read back.
func (a *Audit) Finish(revision int64) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	a.c.verdict.Audited = true
	a.c.verdict.AuditRevision = revision
	if newest := a.c.newest; newest != nil && revision < newest.Revision {
		a.c.verdict.add(WentBackwards, fmt.Sprintf(
			"the writes were read back at revision %d although revision %d had been answered before",
			revision, newest.Revision), *newest)
	}
	ids := slices.SortedFunc(maps.Keys(a.c.ledgers), func(x, y outcomesID) int {
		return cmp.Or(cmp.Compare(x.space, y.space), cmp.Compare(x.caller, y.caller))
	})
	for _, id := range ids {
		a.finishOutcomes(id, a.c.ledgers[id], revision)
	}
	for _, caller := range slices.Sorted(maps.Keys(a.c.counters)) {
		a.finishCounter(caller, a.c.counters[caller], revision)
	}
}

func (a *Audit) finishOutcomes(id outcomesID, l *outcomes, revision int64) {
	v := &a.c.verdict
	found := a.found[id]
	for seq, state := range l.writes {
		switch state {
		case unknown:
			v.UnknownWrites++
		case refused:
			v.RefusedWrites++
		default:
			v.AcknowledgedWrites++
			if found == nil || !found[seq] {
				v.add(LostWrite, fmt.Sprintf("%s was acknowledged at revision %d and is missing at revision %d",
					history.Key{Space: id.space, Caller: id.caller, Seq: int64(seq)}, state, revision))
			}
		}
	}
}

// finishCounter checks a counter against its increments. The comparison inside
// each txn makes a second application of it harmless to the counter, but then
// its caller was refused an increment that did happen, and the counter is higher
// than all that were acknowledged or unknown. An unknown increment may be
// missing, but not once an answer has shown it.
func (a *Audit) finishCounter(caller int, n *counter, revision int64) {
	v, key, value := &a.c.verdict, history.CounterOf(caller), a.counters[caller].value
	switch most := n.acknowledged + n.unknown; {
	case value < n.acknowledged:
		v.add(LostWrite, fmt.Sprintf("%s is %d at revision %d after %d acknowledged increments",
			key, value, revision, n.acknowledged))
	case n.newest != nil && a.counters[caller].modRevision < counterRevision(*n.newest):
		v.add(WentBackwards, fmt.Sprintf(
			"%s is found as of revision %d although its write at revision %d had been answered before",
			key, a.counters[caller].modRevision, counterRevision(*n.newest)), *n.newest)
	case value > most:
		v.add(AppliedTwice, fmt.Sprintf("%s is %d at revision %d after %d acknowledged and %d unknown increments",
			key, value, revision, n.acknowledged, n.unknown))
	}
	if marks := a.increments[caller]; marks != value {
		v.add(TornTxn, fmt.Sprintf("%s is %d at revision %d, and %d keys were written beside it", key, value, revision, marks))
	}
}
