package lockcheck_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// sampleHistory is the history that the tests plant their faults in. Contender 0 has the lock
// and loses it with its lease (session a), then contender 1 takes it, which had waited
// (session b), and gives it up:
//
//	2 a queues and has the lock    5 a ends
//	3 a writes "1"                 6 b writes "2"
//	4 b queues                     7 b unlocks
//
// a's write "3" is refused between 6 and 7.
func sampleHistory() *simulation {
	w := newSimulation(2)
	w.a = w.lock(0, 0xa)
	w.write(w.a, false)
	called := w.tick()
	claim := w.queue(0xb)
	w.remove(keyOf(0xa))
	w.b = w.attempt(1, 0xb, called, lockcheck.Taken, claim)
	w.write(w.b, false)
	w.write(w.a, false)
	w.unlock(w.b)
	return w
}

func check(t *testing.T, h lockcheck.History) lockcheck.Verdict {
	t.Helper()
	v, err := lockcheck.Check(h)
	require.NoError(t, err)
	return v
}

func TestGoodHistories(t *testing.T) {
	tests := []struct {
		name   string
		change func(*simulation)
	}{
		{"as it is", func(*simulation) {}},
		{"nobody did anything", func(w *simulation) { *w = *newSimulation(0) }},
		{"an unknown write was made", func(w *simulation) { unknown(&w.b.Writes[0]) }},
		{"an unknown write was not made", func(w *simulation) { unknown(&w.a.Writes[1]) }},
		{"a failed call left a key", func(w *simulation) {
			called := w.tick()
			w.queue(0xc)
			w.attempt(1, 0xc, called, lockcheck.Failed, lockcheck.Claim{})
		}},
		{"found locked", func(w *simulation) { w.attempt(0, 0xa, 0, lockcheck.Locked, lockcheck.Claim{}) }},
		{"found locked by one who has just come", func(w *simulation) {
			w.lock(0, 0xc)
			w.attempt(1, 0xb, w.tick(), lockcheck.Locked, lockcheck.Claim{})
			w.write(w.b, false) // which tells how far the store has come
		}},
		{"a session asks again for what it has", func(w *simulation) {
			first := w.lock(0, 0xc)
			w.attempt(0, 0xc, w.tick(), lockcheck.Taken, first.Claim)
		}},
		{"locked again after it was unlocked", func(w *simulation) {
			w.write(w.lock(1, 0xb), false)
		}},
		{"closed with all its keys", func(w *simulation) {
			c := w.lock(0, 0xc)
			w.remove(keyOf(0xc))
			w.release(c, lockcheck.Closed)
			w.write(c, false)
		}},
		{"everybody took a lock in the end", func(w *simulation) {
			w.history.Calm = w.now
			w.unlock(w.lock(0, 0xc))
			w.lock(1, 0xd)
		}},
		{"keys of others", func(w *simulation) { w.put("/else", "", 0) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := sampleHistory()
			tt.change(w)
			v := check(t, w.over())
			assert.True(t, v.OK(), "%v", v)
			assert.Zero(t, v.Total())
			assert.Equal(t, "every promise was kept\n", v.String())
		})
	}
}

func unknown(w *lockcheck.Write) { w.Outcome, w.Revision = lockcheck.Unknown, 0 }

// planted are faults, each of which breaks one promise.
var planted = map[lockcheck.Promise][]struct {
	name, says string
	change     func(*simulation)
}{
	lockcheck.Acquired: {
		{
			"success with a key that ended while it waited",
			"which never held the lock: it was deleted at revision 10, while /lock/a of revision 8 was there from before, until revision 11",
			func(w *simulation) {
				a := w.lock(0, 0xa)
				called := w.tick()
				claim := w.queue(0xb)
				w.remove(keyOf(0xb))
				w.unlock(a)
				w.attempt(1, 0xb, called, lockcheck.Taken, claim)
			},
		},
		{"success before its turn", "held the lock only from revision 11 on, and when the call returned the store was at revision 10 at most", func(w *simulation) {
			a := w.lock(0, 0xa)
			b := w.attempt(1, 0xb, w.tick(), lockcheck.Taken, w.queue(0xb))
			w.write(a, false)
			w.unlock(a)
			w.write(b, false)
		}},
		{"success with a key of before", "deleted at revision 7, and when the call was made the store was at revision 7 at least", func(w *simulation) {
			w.write(w.b, false) // which tells how far the store has come
			w.attempt(1, 0xb, w.tick(), lockcheck.Taken, w.b.Claim)
		}},
		{"a revision that created no key", "Lock of /lock/ by contender 0 at 0.001s succeeded with /lock/a of revision 3, which never existed", func(w *simulation) {
			w.a.Claim.Revision = 3
		}},
		{"a key of another lock", "which is not a key of the lock", func(w *simulation) { w.a.Claim.Key = "/clock/a" }},
		{"a key of another session", "which belongs to session a; its own is c", func(w *simulation) { w.a.Session = 0xc }},
	},
	lockcheck.Contested: {
		{"locked by nobody", "no other session had a key of it from revision 7 to 7", func(w *simulation) {
			w.write(w.b, false) // which tells how far the store has come
			w.attempt(0, 0xa, w.tick(), lockcheck.Locked, lockcheck.Claim{})
		}},
		{"locked by one who comes later", "no other session had a key of it from revision 7 to 7", func(w *simulation) {
			w.write(w.b, false)
			w.attempt(0, 0xa, w.tick(), lockcheck.Locked, lockcheck.Claim{})
			w.write(w.b, false) // which tells how far the store has come
			w.lock(0, 0xc)
		}},
		{"locked by its own session", "no other session had a key of it", func(w *simulation) {
			w.lock(0, 0xc)
			w.write(w.b, false)
			w.attempt(0, 0xc, w.tick(), lockcheck.Locked, lockcheck.Claim{})
		}},
	},
	lockcheck.Guarded: {
		{
			"a write of a former holder",
			`"4" was written to /register at revision 8 for Lock of /lock/ by contender 0 at 0.001s, whose claim is /lock/a of revision 2; no contender held the lock then`,
			func(w *simulation) { w.write(w.a, true) },
		},
		{"a write of one who waits", "the holder then was /lock/a of revision 8", func(w *simulation) {
			a := w.lock(0, 0xa)
			b := w.attempt(1, 0xb, w.tick(), lockcheck.Taken, w.queue(0xb))
			w.write(b, false)
			w.unlock(a)
		}},
		{"a write that was on its way for too long", "no contender held the lock then", func(w *simulation) { unknown(w.write(w.a, true)) }},
	},
	lockcheck.Truthful: {
		{"accepted and not there", `the write of "3" to /register is reported as accepted, at revision 6, and it is not in the history`, func(w *simulation) {
			w.a.Writes[1].Outcome = lockcheck.Accepted
		}},
		{"accepted at another revision", "at revision 4, and it was made at revision 3", func(w *simulation) { w.a.Writes[0].Revision++ }},
		{"refused and there", "is reported as refused, and it was made at revision 6", func(w *simulation) { w.b.Writes[0].Outcome = lockcheck.Refused }},
		{"made twice", "and it was made 2 times, at revisions [6 8]", func(w *simulation) { w.put("/register", "2", 0) }},
		{"made twice and unknown", "is reported as unknown, and it was made 2 times", func(w *simulation) {
			unknown(&w.b.Writes[0])
			w.put("/register", "2", 0)
		}},
		{"a value of nobody", `put /register at revision 8: nobody sent that, value "42"`, func(w *simulation) { w.put("/register", "42", 0) }},
		{"a register that is deleted", "delete /register at revision 8: nobody sent that", func(w *simulation) { w.remove("/register") }},
	},
	lockcheck.Released: {
		{"unlocked and still there", "was unlocked at 0.007s, and /lock/a of revision 8 was still there at revision 8, later than that", func(w *simulation) {
			a := w.lock(0, 0xa)
			w.release(a, lockcheck.Unlocked)
			w.write(w.b, false) // which tells how far the store has come
			w.remove(keyOf(0xa))
		}},
		{"closed and still there", "was closed at 0.006s, and /lock/a of revision 8 was still there", func(w *simulation) {
			w.queue(0xa) // for a call that failed
			w.release(w.a, lockcheck.Closed)
		}},
		{"a write after it was unlocked", `was unlocked at 0.005s, and its write of "4", sent at 0.006s, was made at revision 8`, func(w *simulation) {
			w.write(w.b, true)
		}},
	},
	lockcheck.Live: {
		{
			"somebody is stuck",
			"contender 1 took no lock although all was well from 0.005s on; its last attempt, Lock of /lock/ by contender 1 at 0.007s, failed: too late",
			func(w *simulation) {
				w.history.Calm = w.now
				w.lock(0, 0xc)
				w.attempt(1, 0xd, w.tick(), lockcheck.Failed, lockcheck.Claim{}).Err = errors.New("too late")
			},
		},
		{"nobody even tried", "contender 0 took no lock", func(w *simulation) { w.history.Calm = w.now + time.Second }},
	},
}

func TestPlantedFaultsAreFound(t *testing.T) {
	for promise, faults := range planted {
		for _, tt := range faults {
			t.Run(string(promise)+"/"+tt.name, func(t *testing.T) {
				w := sampleHistory()
				tt.change(w)
				v := check(t, w.over())
				require.Positive(t, v.Counts[promise], "%v", v)
				assert.True(t, slices.ContainsFunc(v.Violations, func(v tally.Violation) bool {
					return v.Promise == promise && strings.Contains(v.Message, tt.says)
				}), "%v", v)
				assert.False(t, v.OK())
				assert.Contains(t, v.String(), tt.says)
			})
		}
	}
}

func TestHistoriesThatContradictThemselves(t *testing.T) {
	for want, change := range map[string]func(*lockcheck.History){
		"lacks an event":              func(h *lockcheck.History) { h.Events = h.Events[1:] },
		"claims to end at revision 5": func(h *lockcheck.History) { h.Through = 5 },
	} {
		h := sampleHistory().over()
		change(&h)
		_, err := lockcheck.Check(h)
		assert.ErrorContains(t, err, want)
	}
}
