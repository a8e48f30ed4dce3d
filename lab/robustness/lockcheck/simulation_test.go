package lockcheck_test

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// simulation is a store with a lock and those who contend for it. Every step takes a
// millisecond, and the store acts in the middle of it.
type simulation struct {
	history  lockcheck.History
	a, b     *lockcheck.Attempt // of the sample
	revision int64
	now      time.Duration
	alive    map[string]history.KeyValue
	values   int
}

// prefix is the prefix of the lock's keys.
const prefix = "/lock/"

func newSimulation(contenders int) *simulation {
	return &simulation{
		history: lockcheck.History{
			Locks:    []lockcheck.LockKeys{{Prefix: prefix, Register: "/register"}},
			Attempts: make([][]*lockcheck.Attempt, contenders),
		},
		revision: 1, alive: map[string]history.KeyValue{},
	}
}

// tick lets half a millisecond pass.
func (w *simulation) tick() time.Duration {
	w.now += time.Millisecond / 2
	return w.now
}

// put writes a key and returns the revision.
func (w *simulation) put(key, value string, lease int64) int64 {
	w.revision++
	kv, ok := w.alive[key]
	if !ok {
		kv = history.KeyValue{Key: key, CreateRevision: w.revision, Lease: lease}
	}
	kv.Value, kv.ModRevision = value, w.revision
	kv.Version++
	w.alive[key] = kv
	w.history.Events = append(w.history.Events, history.Event{KeyValue: kv})
	return w.revision
}

// remove deletes a key if it is there.
func (w *simulation) remove(key string) {
	if _, ok := w.alive[key]; ok {
		w.revision++
		delete(w.alive, key)
		w.history.Events = append(w.history.Events, history.Event{
			Type: history.DeleteEvent, KeyValue: history.KeyValue{Key: key, ModRevision: w.revision},
		})
	}
}

func keyOf(session int64) string { return fmt.Sprintf("%s%x", prefix, session) }

// queue creates the key of a session.
func (w *simulation) queue(session int64) lockcheck.Claim {
	return lockcheck.Claim{Key: keyOf(session), Revision: w.put(keyOf(session), "", session)}
}

// holds reports whether a claim is true.
func (w *simulation) holds(c lockcheck.Claim) bool {
	return w.alive[c.Key].CreateRevision == c.Revision
}

// attempt writes down a call that was made at some moment and returns now.
func (w *simulation) attempt(contender int, session int64, called time.Duration, answer lockcheck.Answer, c lockcheck.Claim) *lockcheck.Attempt {
	a := &lockcheck.Attempt{
		Contender: contender, Style: lockcheck.Lock, Session: session, Called: called, Returned: w.tick(), Answer: answer, Claim: c,
	}
	w.history.Attempts[contender] = append(w.history.Attempts[contender], a)
	return a
}

// lock takes the lock, which must be free.
func (w *simulation) lock(contender int, session int64) *lockcheck.Attempt {
	called := w.tick()
	return w.attempt(contender, session, called, lockcheck.Taken, w.queue(session))
}

// write makes a write under the claim of an attempt, if it is true or force says so.
func (w *simulation) write(a *lockcheck.Attempt, force bool) *lockcheck.Write {
	w.values++
	out := lockcheck.Write{Value: fmt.Sprint(w.values), Sent: w.tick(), Outcome: lockcheck.Refused}
	if force || w.holds(a.Claim) {
		w.put("/register", out.Value, 0)
		out.Outcome = lockcheck.Accepted
	}
	out.Revision, out.Answered = w.revision, w.tick()
	a.Writes = append(a.Writes, out)
	return &a.Writes[len(a.Writes)-1]
}

// release writes down that a lock was given up.
func (w *simulation) release(a *lockcheck.Attempt, ending lockcheck.Ending) {
	a.Ending, a.Ended = ending, w.tick()
}

// unlock gives a lock up.
func (w *simulation) unlock(a *lockcheck.Attempt) {
	w.remove(a.Claim.Key)
	w.release(a, lockcheck.Unlocked)
}

// over returns the history.
func (w *simulation) over() lockcheck.History {
	w.history.Through = w.revision
	return w.history
}
