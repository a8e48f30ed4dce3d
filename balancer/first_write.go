package balancer

import (
	"slices"
	"time"

	"github.com/quorate/quorate/health"
)

// proofWait is how long the first write of a client waits for an endpoint that has
// completed work.
const proofWait = 500 * time.Millisecond

// proof records whether an endpoint has shown that it serves. The first write waits for that, because an
// endpoint that is connected need not serve. The policy's lock guards it.
type proof struct {
	p      *policy
	due    time.Time // until when writes wait, zero before the first
	proven bool      // an endpoint has shown that it serves
}

// awaitedLocked reports whether writes wait: the best endpoints have no evidence yet, there
// are several, and they can be probed.
func (pf *proof) awaitedLocked(fit []*Endpoint) bool {
	if len(fit) == 0 || pf.proven || !pf.p.prober.canProbe() {
		return false
	}
	if rank(fit[0].State(), needWrite) != 0 || slices.ContainsFunc(fit, (*Endpoint).proven) {
		pf.proven = true
		return false
	}
	return pf.due.IsZero() || time.Now().Before(pf.due)
}

// wanted reports whether there are writes and the endpoint has completed no work:
// without a service probe it would never get a write.
func (pf *proof) wanted(ep *Endpoint) bool {
	pf.p.mu.Lock()
	defer pf.p.mu.Unlock()
	return !pf.due.IsZero() && !ep.proven()
}

// completed records that the endpoint has completed work over the connection. Writes may wait for the first.
func (pf *proof) completed(s *subConn, start, end time.Time) {
	first := s.ep.healthEntry().Latest() == 0
	s.completed.Set(start)
	s.ep.healthEntry().Completed(start, end)
	if first {
		pf.p.publish()
	}
}

// prove sends, for the first write, service probes to endpoints that may work and have
// completed nothing yet. Endpoints that are not connected are probed once they are.
func (pf *proof) prove() {
	pf.p.mu.Lock()
	begun := !pf.due.IsZero()
	if !begun {
		pf.due = time.Now().Add(proofWait)
		time.AfterFunc(proofWait, pf.p.publish)
	}
	pf.p.mu.Unlock()
	if begun {
		return
	}
	for _, ep := range pf.p.all() {
		if rank(ep.State(), needWrite) == 0 && !ep.proven() {
			pf.probe(ep.conn(Calls))
		}
	}
}

// probe sends a service probe, unless another client of the process sent one within
// proofWait: the answer counts for all.
func (pf *proof) probe(s *subConn) {
	now := time.Now()
	if !s.ep.healthEntry().AskedSince(health.ForProof, now.Add(-proofWait)) && pf.p.prober.send(s, forService, nil) {
		s.ep.healthEntry().Asked(health.ForProof, now)
	}
}
