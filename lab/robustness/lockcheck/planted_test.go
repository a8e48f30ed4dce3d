package lockcheck_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

func TestPlantedFaultsAreFound(t *testing.T) {
	tests := []struct {
		name   string
		change func(*simulation)
		want   lockcheck.Promise
		says   string
	}{
		{
			"success with a key that ended while it waited", func(w *simulation) {
				a := w.lock(0, 0xa)
				called := w.tick()
				claim := w.queue(0xb)
				w.remove(keyOf(0xb))
				w.unlock(a)
				w.attempt(1, 0xb, called, lockcheck.Taken, claim)
			},
			lockcheck.Acquired, "which never held the lock: it was deleted at revision 10, while /lock/a of revision 8 was there from before, until revision 11",
		},
		{
			"success before its turn", func(w *simulation) {
				a := w.lock(0, 0xa)
				b := w.attempt(1, 0xb, w.tick(), lockcheck.Taken, w.queue(0xb))
				w.write(a, false)
				w.unlock(a)
				w.write(b, false)
			},
			lockcheck.Acquired, "held the lock only from revision 11 on, and when the call returned the store was at revision 10 at most",
		},
		{
			"success with a key of before", func(w *simulation) {
				w.write(w.b, false) // which tells how far the store has come
				w.attempt(1, 0xb, w.tick(), lockcheck.Taken, w.b.Claim)
			},
			lockcheck.Acquired, "deleted at revision 7, and when the call was made the store was at revision 7 at least",
		},
		{
			"a revision that created no key", func(w *simulation) { w.a.Claim.Revision = 3 },
			lockcheck.Acquired, "Lock of /lock/ by contender 0 at 0.001s succeeded with /lock/a of revision 3, which never existed",
		},
		{
			"a key of another lock", func(w *simulation) { w.a.Claim.Key = "/clock/a" },
			lockcheck.Acquired, "which is not a key of the lock",
		},
		{
			"a key of another session", func(w *simulation) { w.a.Session = 0xc },
			lockcheck.Acquired, "which belongs to session a; its own is c",
		},
		{
			"locked by nobody", func(w *simulation) {
				w.write(w.b, false) // which tells how far the store has come
				w.attempt(0, 0xa, w.tick(), lockcheck.Locked, lockcheck.Claim{})
			},
			lockcheck.Contested, "no other session had a key of it from revision 7 to 7",
		},
		{
			"locked by one who comes later", func(w *simulation) {
				w.write(w.b, false)
				w.attempt(0, 0xa, w.tick(), lockcheck.Locked, lockcheck.Claim{})
				w.write(w.b, false) // which tells how far the store has come
				w.lock(0, 0xc)
			},
			lockcheck.Contested, "no other session had a key of it from revision 7 to 7",
		},
		{
			"locked by its own session", func(w *simulation) {
				w.lock(0, 0xc)
				w.write(w.b, false)
				w.attempt(0, 0xc, w.tick(), lockcheck.Locked, lockcheck.Claim{})
			},
			lockcheck.Contested, "no other session had a key of it",
		},
		{
			"a write of a former holder", func(w *simulation) { w.write(w.a, true) },
			lockcheck.Guarded, `"4" was written to /register at revision 8 for Lock of /lock/ by contender 0 at 0.001s, whose claim is /lock/a of revision 2; no contender held the lock then`,
		},
		{
			"a write of one who waits", func(w *simulation) {
				a := w.lock(0, 0xa)
				b := w.attempt(1, 0xb, w.tick(), lockcheck.Taken, w.queue(0xb))
				w.write(b, false)
				w.unlock(a)
			},
			lockcheck.Guarded, "the holder then was /lock/a of revision 8",
		},
		{
			"a write that was on its way for too long", func(w *simulation) {
				unknown(w.write(w.a, true))
			},
			lockcheck.Guarded, "no contender held the lock then",
		},
		{
			"accepted and not there", func(w *simulation) { w.a.Writes[1].Outcome = lockcheck.Accepted },
			lockcheck.Truthful, `the write of "3" to /register is reported as accepted, at revision 6, and it is not in the history`,
		},
		{
			"accepted at another revision", func(w *simulation) { w.a.Writes[0].Revision++ },
			lockcheck.Truthful, "at revision 4, and it was made at revision 3",
		},
		{
			"refused and there", func(w *simulation) { w.b.Writes[0].Outcome = lockcheck.Refused },
			lockcheck.Truthful, "is reported as refused, and it was made at revision 6",
		},
		{
			"made twice", func(w *simulation) { w.put("/register", "2", 0) },
			lockcheck.Truthful, "and it was made 2 times, at revisions [6 8]",
		},
		{
			"made twice and unknown", func(w *simulation) {
				unknown(&w.b.Writes[0])
				w.put("/register", "2", 0)
			},
			lockcheck.Truthful, "is reported as unknown, and it was made 2 times",
		},
		{
			"a value of nobody", func(w *simulation) { w.put("/register", "42", 0) },
			lockcheck.Truthful, `put /register at revision 8: nobody sent that, value "42"`,
		},
		{
			"a register that is deleted", func(w *simulation) { w.remove("/register") },
			lockcheck.Truthful, "delete /register at revision 8: nobody sent that",
		},
		{
			"unlocked and still there", func(w *simulation) {
				a := w.lock(0, 0xa)
				w.release(a, lockcheck.Unlocked)
				w.write(w.b, false) // which tells how far the store has come
				w.remove(keyOf(0xa))
			},
			lockcheck.Released, "was unlocked at 0.007s, and /lock/a of revision 8 was still there at revision 8, later than that",
		},
		{
			"closed and still there", func(w *simulation) {
				w.queue(0xa) // for a call that failed
				w.release(w.a, lockcheck.Closed)
			},
			lockcheck.Released, "was closed at 0.006s, and /lock/a of revision 8 was still there",
		},
		{
			"a write after it was unlocked", func(w *simulation) { w.write(w.b, true) },
			lockcheck.Released, `was unlocked at 0.005s, and its write of "4", sent at 0.006s, was made at revision 8`,
		},
		{
			"somebody is stuck", func(w *simulation) {
				w.history.Calm = w.now
				w.lock(0, 0xc)
				w.attempt(1, 0xd, w.tick(), lockcheck.Failed, lockcheck.Claim{}).Err = errors.New("too late")
			},
			lockcheck.Live, "contender 1 took no lock although all was well from 0.005s on; its last attempt, Lock of /lock/ by contender 1 at 0.007s, failed: too late",
		},
		{
			"nobody even tried", func(w *simulation) { w.history.Calm = w.now + time.Second },
			lockcheck.Live, "contender 0 took no lock",
		},
	}
	for _, tt := range tests {
		t.Run(string(tt.want)+"/"+tt.name, func(t *testing.T) {
			w := sampleHistory()
			tt.change(w)
			v := check(t, w.over())
			require.Positive(t, v.Counts[tt.want], "%v", v)
			var said []string
			for _, violation := range v.Violations {
				if violation.Promise == tt.want {
					said = append(said, violation.Message)
				}
			}
			assert.Contains(t, fmt.Sprint(said), tt.says)
			assert.False(t, v.OK())
			assert.Contains(t, v.String(), tt.says)
		})
	}
}

func TestHistoriesThatContradictThemselves(t *testing.T) {
	tests := []struct {
		name   string
		change func(*lockcheck.History)
		want   string
	}{
		{"an event is missing", func(h *lockcheck.History) { h.Events = h.Events[1:] }, "lacks an event"},
		{"it ends early", func(h *lockcheck.History) { h.Through = 5 }, "claims to end at revision 5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := sampleHistory().over()
			tt.change(&h)
			_, err := lockcheck.Check(h)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
