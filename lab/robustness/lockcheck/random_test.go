package lockcheck_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// program is a contender in a random history: what a lock does with its calls is
// correct, but for the faults that are set.
type program struct {
	*simulation
	index   int
	session int64
	state   state
	called  time.Duration
	claim   lockcheck.Claim
	attempt int // that took the lock last
	took    bool
}

type state uint8

const (
	idle state = iota
	waiting
	holding
	former // goes on writing
)

// flaws are the defects that a lock can have.
type flaws struct {
	// unchecked: a waiting contender does not check that its own key is still there.
	unchecked bool
	// impatient: a waiting contender gets the lock.
	impatient bool
	// unguarded: writes are made without the lock, too.
	unguarded bool
	// forgetful: the key stays when the lock is given up.
	forgetful bool
	// pessimist: a free lock is said to be held.
	pessimist bool
	// denying: some writes that were made are reported as refused.
	denying bool
}

// step lets a program do something.
func (p *program) step(rng *rand.Rand, f flaws) {
	switch p.state {
	case idle:
		if p.took { // as one who does not know that it has lost the lock
			p.write(p.attempt, false)
		}
		p.session++
		p.called = p.tick()
		if p.tryLock(rng, f) {
			return
		}
		p.claim, p.state = p.queue(p.session), waiting
	case waiting:
		p.wait(rng, f)
	case holding:
		p.hold(rng, f)
	case former:
		p.guardedWrite(rng, f)
		if rng.IntN(2) == 0 {
			p.state = idle
		}
	}
}

// tryLock asks without waiting, now and then, and reports whether that failed.
func (p *program) tryLock(rng *rand.Rand, f flaws) bool {
	taken := false
	for key := range p.alive {
		taken = taken || key != "/register"
	}
	if rng.IntN(4) != 0 || !taken && (!f.pessimist || !p.took) {
		return false
	}
	p.simulation.attempt(p.index, p.session, p.called, lockcheck.Locked, lockcheck.Claim{})
	if p.took { // tell how far the store has come
		p.write(p.attempt, false)
	}
	return true
}

func (p *program) wait(rng *rand.Rand, f flaws) {
	older := false
	for key, kv := range p.alive {
		older = older || key != "/register" && kv.CreateRevision < p.claim.Revision
	}
	switch {
	case p.first(p.claim), f.unchecked && !older, f.impatient && rng.IntN(3) == 0:
		p.attempt = p.simulation.attempt(p.index, p.session, p.called, lockcheck.Taken, p.claim)
		p.state, p.took = holding, true
	case !p.holds(p.claim) && !f.unchecked:
		p.simulation.attempt(p.index, p.session, p.called, lockcheck.Failed, lockcheck.Claim{})
		p.state = idle
	case rng.IntN(6) == 0: // the lease ends
		p.remove(p.claim.Key)
	}
}

func (p *program) hold(rng *rand.Rand, f flaws) {
	switch rng.IntN(6) {
	case 0: // the lease ends
		p.remove(p.claim.Key)
	case 1:
		if !f.forgetful {
			p.remove(p.claim.Key)
		}
		p.release(p.attempt, []lockcheck.Ending{lockcheck.Unlocked, lockcheck.Closed}[rng.IntN(2)])
		if f.forgetful { // until it is noticed
			p.write(p.attempt, false)
			p.remove(p.claim.Key)
		}
		p.state = former
	case 2:
		p.remove(p.claim.Key)
		p.state = former
	default:
		p.guardedWrite(rng, f)
	}
}

func (p *program) guardedWrite(rng *rand.Rand, f flaws) {
	w := p.write(p.attempt, f.unguarded)
	switch {
	case f.denying && w.Outcome == lockcheck.Accepted && rng.IntN(3) == 0:
		w.Outcome = lockcheck.Refused
	case rng.IntN(5) == 0:
		unknown(w)
	}
}

// randomHistory lets programs contend for a lock, two to five of them by turns of the
// seed.
func randomHistory(seed uint64, f flaws) lockcheck.History {
	rng := rand.New(rand.NewPCG(seed, 0))
	contenders := 2 + int(seed%4)
	w := newSimulation(contenders)
	programs := make([]*program, contenders)
	for i := range programs {
		programs[i] = &program{simulation: w, index: i, session: int64(i+1) << 32}
	}
	for range 400 {
		programs[rng.IntN(contenders)].step(rng, f)
	}
	return w.over()
}

func TestRandomHistoriesAreGood(t *testing.T) {
	for seed := range uint64(200) {
		h := randomHistory(seed, flaws{})
		v, err := lockcheck.Check(h)
		require.NoError(t, err)
		require.True(t, v.OK(), "seed %d: %v", seed, v)
		require.Greater(t, len(h.Writes), 20)
	}
}

// TestFaultyLocksAreFound runs many histories with a lock that has one flaw. Not every
// history shows it: that a free lock is said to be held is only seen when no call comes
// in between.
func TestFaultyLocksAreFound(t *testing.T) {
	tests := []struct {
		name  string
		flaw  flaws
		want  lockcheck.Promise
		least int // of a hundred histories
	}{
		{"unchecked", flaws{unchecked: true}, lockcheck.Acquired, 95},
		{"impatient", flaws{impatient: true}, lockcheck.Guarded, 95},
		{"impatient, and nobody wrote", flaws{impatient: true}, lockcheck.Acquired, 95},
		{"unguarded", flaws{unguarded: true}, lockcheck.Guarded, 95},
		{"unguarded, after a later holder", flaws{unguarded: true}, lockcheck.Fenced, 95},
		{"forgetful", flaws{forgetful: true}, lockcheck.Released, 95},
		{"pessimist", flaws{pessimist: true}, lockcheck.Contested, 30},
		{"denying", flaws{denying: true}, lockcheck.Truthful, 95},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := 0
			for seed := range uint64(100) {
				v, err := lockcheck.Check(randomHistory(seed, tt.flaw))
				require.NoError(t, err)
				if v.Counts[tt.want] > 0 {
					found++
				}
			}
			t.Logf("found in %d of 100 histories", found)
			require.GreaterOrEqual(t, found, tt.least)
		})
	}
}
