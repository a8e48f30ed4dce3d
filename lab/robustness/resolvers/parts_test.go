package resolvers

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

func TestBusiest(t *testing.T) {
	from := time.Unix(1e9, 0)
	var arrived []time.Time
	for _, ms := range []int{-5, 0, 10, 20, 110, 500, 505, 506, 507, 1200} {
		arrived = append(arrived, from.Add(time.Duration(ms)*time.Millisecond))
	}
	assert.Equal(t, 8, busiest(arrived, from, time.Second, time.Second))
	assert.Equal(t, 4, busiest(arrived, from, time.Second, 100*time.Millisecond))
	assert.Equal(t, 3, busiest(arrived, from, 100*time.Millisecond, 100*time.Millisecond))
	assert.Zero(t, busiest(nil, from, time.Second, time.Second))
}

func TestStallsDoNotCount(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1e9, 0).Add(time.Duration(ms) * time.Millisecond) }
	s := stalls{all: []stall{{at(200), 100 * time.Millisecond}, {at(500), 50 * time.Millisecond}}}
	for _, c := range []struct{ from, to, want int }{
		{0, 1000, 150}, {0, 100, 0}, {150, 470, 70}, {120, 180, 60}, {300, 400, 0}, {500, 900, 0},
	} {
		assert.Equal(t, time.Duration(c.want)*time.Millisecond, s.between(at(c.from), at(c.to)), c)
	}
}

// Changes leave enough backends, bring new ones, and tell when most are gone at once.
func TestChangesOfBackends(t *testing.T) {
	tr := &trial{rng: rand.New(rand.NewPCG(1, 0))}
	tr.backends.servers = map[string]*backend{}
	defer func() { tr.backends.stop(nil) }()
	var err error
	tr.live, err = tr.backends.start(fewest)
	require.NoError(t, err)
	removals := 0
	for range 100 {
		before := tr.live
		removal := tr.change()
		assert.GreaterOrEqual(t, len(tr.live), fewest)
		assert.LessOrEqual(t, len(tr.live), most+most/2)
		assert.NotContains(t, before, tr.live[len(tr.live)-1])
		if removal > 0 {
			removals++
		}
		tr.backends.stop(tr.live)
		assert.Len(t, tr.backends.servers, len(tr.live))
	}
	assert.Positive(t, removals)
}

// A new backend cannot be listed before the source knows it; one that a false list leaves out must be.
func TestOnlyKnownRemovalsCountAsAccepted(t *testing.T) {
	o := &observer{resolver: "dns", bound: time.Minute, stalls: &stalls{}, counts: &robustness.Counts{}, views: map[*view]bool{}}
	list := func(addresses ...string) (endpoints []resolver.Endpoint) {
		for _, address := range addresses {
			endpoints = append(endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: address}}})
		}
		return endpoints
	}
	v := &view{built: time.Now()}
	o.views[v] = true
	o.set([]string{"a", "b"})
	o.listedAll(0, 0)
	o.update(v, list("a", "b"))
	o.listedFalsely(true)
	o.update(v, list("b", "a"))
	o.set([]string{"a", "b", "c"})
	o.update(v, list("a", "b"))
	assert.True(t, o.verdict.OK(), "%v", o.verdict)
	o.listedAll(0, 0)
	assert.Equal(t, 1, o.behind())
	o.update(v, list("a", "b", "c"))
	assert.Zero(t, o.behind())
	o.listedFalsely(true)
	o.update(v, list("a", "b"))
	assert.Equal(t, map[robustness.Promise]int{Removal: 1}, o.verdict.Counts)
	o.update(v, nil)
	assert.Equal(t, map[robustness.Promise]int{Removal: 2, Serving: 1}, o.verdict.Counts)
}
