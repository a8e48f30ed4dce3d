package balancer

import (
	"slices"
	"time"

	"github.com/quorate/quorate/balancer/internal/probe"
	"github.com/quorate/quorate/health"
)

// Local calls need only what an endpoint can do without its peers. Where two members of three are frozen,
// the third has no leader: it serves local calls, and calls that need full service stay where they are.

// hasLocalWitness reports whether another endpoint may serve the local calls of this one: its state allows it, and it
// has given a sign of life since.
func (e *Endpoint) hasLocalWitness(since time.Time) bool {
	return slices.ContainsFunc(e.others(), func(other *Endpoint) bool {
		return rank(other.State(), needLocal) <= rank(health.Lagging, needLocal) && other.healthEntry().AliveSince(since)
	})
}

// localReads returns the local reads in flight.
func (e *Endpoint) localReads() []*call {
	return slices.DeleteFunc(e.inflight.callsOn(nil), func(c *call) bool { return c.attempt.Need != Local || c.attempt.Write })
}

// stuckLocally returns the local reads that may be stuck at the endpoint, and since when it answers none of
// them: those on a silent connection, and, on a Lagging endpoint, those that are overdue by far.
func (e *Endpoint) stuckLocally(now time.Time) (stuck []*call, since time.Time) {
	st := e.Health()
	if st.State != health.Suspected && st.State != health.Lagging || e.running.Load() == 0 {
		return nil, since
	}
	for _, c := range e.localReads() {
		if c.conn.conn.receiving(now) {
			continue
		}
		began := c.start.Time()
		switch {
		case c.conn.silentFor(now) > 0:
			began = now.Add(-c.conn.unanswered(&c.conn.probeSent, now))
		case st.State != health.Lagging || now.Sub(began) < c.stat.SuspectAfter() || !c.conn.completedNothing(c.stat, c.start):
			continue
		}
		if stuck = append(stuck, c); since.Before(began) {
			since = began
		}
	}
	return stuck, since
}

// cutLocal ends local reads that are stuck at the endpoint, once another one could have served them for
// probe.WitnessAfter.
func (i *investigation) cutLocal(now time.Time) {
	stuck, since := i.ep.stuckLocally(now)
	i.localWitness = first(i.localWitness, len(stuck) > 0 && i.ep.hasLocalWitness(since), now)
	if sinceOf(i.localWitness, now) < probe.WitnessAfter {
		return
	}
	for _, c := range stuck {
		c.attempt.cut(unusableError(i.ep, "others serve local reads"))
	}
}

// livenessKind returns the kind of probe for a sign of life. Local reads that wait are worth an overdraft
// at first: a sign of life is all the evidence that they need.
func (i *investigation) livenessKind() probeKind {
	if i.rounds <= fastRounds && len(i.ep.localReads()) > 0 {
		return forLocal
	}
	return forLiveness
}
