package balancer

import (
	"slices"
	"time"

	"github.com/quorate/quorate/health"
)

// Local calls need only what an endpoint can do without its peers. Where two members of three are frozen,
// the third has no leader: it serves local calls, and calls that need full service stay where they are.

// localRank ranks suspects for local calls: one that has given a sign of life since may serve them.
func (e *Endpoint) localRank(st *health.Status) int {
	r := rank(st.State, needLocal)
	if st.State == health.Suspected && !e.healthEntry().AliveSince(st.Since) {
		r++
	}
	return r
}

// servesLocal reports whether the endpoint may serve local calls: its state allows it, and it has
// given a sign of life since then.
func (e *Endpoint) servesLocal(since time.Time) bool {
	return rank(e.State(), needLocal) <= rank(health.Lagging, needLocal) && e.healthEntry().AliveSince(since)
}

// hasLocalWitness reports whether another endpoint may serve the local calls of this one.
func (e *Endpoint) hasLocalWitness(since time.Time) bool {
	return slices.ContainsFunc(e.others(), func(other *Endpoint) bool { return other.servesLocal(since) })
}

// localReads returns the local reads in flight.
func (e *Endpoint) localReads() []*call {
	return slices.DeleteFunc(e.inflight.callsOn(nil), func(c *call) bool { return c.attempt.Need != Local || c.attempt.Write })
}

// waitsLocally reports whether local reads may be stuck at the endpoint.
func (e *Endpoint) waitsLocally() bool {
	stuck, _ := e.stuckLocally(time.Now())
	return len(stuck) > 0
}

// stuckLocally returns the local reads that wait at the endpoint, and since when it does not answer
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
		case st.State != health.Lagging || now.Sub(began) < c.stat.SuspectAfter() || !c.conn.isSilent(c.stat, c.start):
			continue
		}
		if stuck = append(stuck, c); since.Before(began) {
			since = began
		}
	}
	return stuck, since
}

// cutLocal ends local reads that wait at the endpoint, once another one may have served them for
// as long as a witness needs.
func (i *investigation) cutLocal(now time.Time) {
	stuck, since := i.ep.stuckLocally(now)
	i.localWitness = first(i.localWitness, len(stuck) > 0 && i.ep.hasLocalWitness(since), now)
	if sinceOf(i.localWitness, now) < witnessAfter {
		return
	}
	for _, c := range stuck {
		c.attempt.cut(unusable(i.ep, "others serve local reads"))
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
