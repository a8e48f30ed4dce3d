package balancer

import (
	"go/scanner"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/health"
)

func TestRank(t *testing.T) {
	type ranks struct{ full, local, write int }
	for state, want := range map[health.State]ranks{
		health.Serving:    {0, 0, 0},
		health.Unknown:    {0, 0, 0},
		health.Slow:       {2, 2, 2},
		health.Suspected:  {3, 3, 3},
		health.Lagging:    {4, 4, 4},
		health.Degraded:   {5, 2, 5},
		health.Restricted: {5, 2, 5},
		health.NotServing: {6, 6, 6},
		health.Draining:   {7, 7, 7},
		health.Dead:       {7, 7, 7},
	} {
		assert.Equal(t, want, ranks{rank(state, needFull), rank(state, needLocal), rank(state, needWrite)}, "%v", state)
	}
}

func TestNeedOfAnAttempt(t *testing.T) {
	assert.Equal(t, needFull, (&Attempt{}).need())
	assert.Equal(t, needWrite, (&Attempt{Write: true}).need())
	assert.Equal(t, needLocal, (&Attempt{Need: Local}).need())
	assert.Equal(t, needLocal, (&Attempt{Need: Local, Write: true}).need())
}

// in returns a detached endpoint in a state that evidence leads to.
func in(address string, kinds ...health.Kind) *Endpoint {
	ep := Detached(address, health.NewTable().Acquire("", address))
	for _, k := range kinds {
		if k == health.Served {
			ep.healthEntry().Completed(time.Now(), time.Now().Add(time.Millisecond))
		}
		ep.healthEntry().Note(health.Evidence{Kind: k})
	}
	return ep
}

func TestBestAreAllOfTheLowestRank(t *testing.T) {
	serving, unknown := in("serving", health.Served), in("unknown")
	also, suspect, dead := in("also", health.Served), in("suspect", health.Served, health.Suspicious), in("dead", health.Unresponsive)
	degraded, alive := in("degraded", health.Degrading), in("alive", health.Answered)
	assert.Equal(t, []*Endpoint{serving}, best([]*Endpoint{alive, serving}, needWrite), "an answer does not show that it serves")
	eps := []*Endpoint{dead, suspect, serving, unknown, also, degraded}
	assert.Equal(t, []*Endpoint{serving, unknown, also}, best(eps, needFull))
	assert.Equal(t, []*Endpoint{serving, also}, best(eps, needWrite))
	assert.Equal(t, []*Endpoint{degraded}, best([]*Endpoint{dead, suspect, degraded}, needLocal))
	assert.Equal(t, []*Endpoint{suspect}, best([]*Endpoint{dead, suspect, degraded}, needFull))
	assert.Equal(t, []*Endpoint{dead}, best([]*Endpoint{dead}, needFull))
	assert.Empty(t, best(nil, needFull))
}

func TestChoiceAvoidsEndpoints(t *testing.T) {
	serving, also, suspect := in("serving", health.Served), in("also", health.Served), in("suspect", health.Served, health.Suspicious)
	degraded := in("degraded", health.Degrading)
	k := &picker{connected: []*Endpoint{serving, also, suspect, degraded}}
	for n := range k.fit {
		k.fit[n] = best(k.connected, need(n))
	}
	assert.Equal(t, []*Endpoint{serving, also}, k.others(&Attempt{}, k.fit[needFull]))
	assert.Equal(t, []*Endpoint{also}, k.others(&Attempt{Avoid: []*Endpoint{serving}}, k.fit[needFull]))
	assert.Equal(t, []*Endpoint{suspect}, k.others(&Attempt{Avoid: []*Endpoint{serving, also}}, k.fit[needFull]), "one that is less fit")
	local := &Attempt{Need: Local, Avoid: []*Endpoint{serving, also}}
	assert.Equal(t, []*Endpoint{degraded}, k.others(local, k.fit[needLocal]), "one without quorum serves local reads")
	all := k.connected
	assert.Equal(t, []*Endpoint{serving, also}, k.others(&Attempt{Avoid: all}, k.fit[needFull]), "no other is left")
	assert.Empty(t, k.others(&Attempt{Avoid: all, AvoidStrictly: true}, k.fit[needFull]))
}

func TestErrorsOfADialerMayHaveATypeThatIsNotComparable(t *testing.T) {
	k := &picker{err: scanner.ErrorList{}}
	assert.True(t, k.refusesLike(k))
}
