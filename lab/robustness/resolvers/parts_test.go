package resolvers

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/robustness"
)

func TestMain(m *testing.M) { labtest.Verify(m) }

func TestArrivalsWithinATime(t *testing.T) {
	from := time.Unix(1e9, 0)
	var o observer
	for _, ms := range []int{110, -5, 0, 999, 1000} {
		o.arrive(from.Add(time.Duration(ms) * time.Millisecond))
	}
	assert.Equal(t, 3, o.arrivedLocked(from, time.Second))
}

// Changes leave enough backends, and bring new ones. None makes half of what there was lately of them.
func TestChangesOfBackends(t *testing.T) {
	tr := newTrial("dns", Config{bound: time.Minute}, &robustness.Env{Outcome: robustness.Outcome{Counts: &robustness.Counts{}}}, rand.New(rand.NewPCG(1, 0)))
	defer func() { require.NoError(t, tr.backends.close()) }()
	tr.source = &source{list: func([]string) {}}
	for range 100 {
		before := tr.live
		tr.change("a change")
		assert.GreaterOrEqual(t, len(tr.live), fewest)
		assert.LessOrEqual(t, len(tr.live), most)
		assert.NotContains(t, before, tr.live[len(tr.live)-1])
		assert.Len(t, tr.backends.conns, len(tr.live))
	}
	assert.Less(t, most, 2*fewest)
}

// A channel may lack a new backend that the source does not list yet, but no backend that a false list leaves out.
func TestOnlyFalseListsMakeRemovalsViolations(t *testing.T) {
	o := &observer{resolver: "dns", bound: time.Minute, counts: &robustness.Counts{}, views: map[*view]bool{}}
	list := func(addresses ...string) (endpoints []resolver.Endpoint) {
		for _, address := range addresses {
			endpoints = append(endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: address}}})
		}
		return endpoints
	}
	v := &view{built: time.Now()}
	o.views[v] = true
	known := func([]string) {}
	o.list([]string{"a", "b"}, known)
	o.update(v, list("a", "b"))
	o.listedFalsely()
	o.update(v, list("b", "a"))
	o.list([]string{"a", "b", "c"}, func([]string) { o.update(v, list("a", "b")) })
	assert.True(t, o.verdict.OK(), "%v", o.verdict)
	assert.False(t, o.settled("a change"))
	o.update(v, list("a", "b", "c"))
	assert.True(t, o.settled("a change"))
	o.listedFalsely()
	o.update(v, list("a", "b"))
	assert.Equal(t, map[robustness.Promise]int{Removal: 1}, o.verdict.Counts)
	o.update(v, nil)
	assert.Equal(t, map[robustness.Promise]int{Removal: 2, Serving: 1}, o.verdict.Counts)
}
