package resolvers

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

func TestClockLeavesOutWhatTheProcessDidNotRun(t *testing.T) {
	var c clock
	began := c.now()
	assert.Positive(t, began)
	c.advance(clockTick)
	c.advance(time.Minute)
	assert.Equal(t, 2*clockTick, c.now()-began)
}

func TestArrivalsWithinATime(t *testing.T) {
	from := time.Unix(1e9, 0)
	var arrived log
	for _, ms := range []int{110, -5, 0, 999, 1000} {
		arrived.add(from.Add(time.Duration(ms) * time.Millisecond))
	}
	assert.Equal(t, 3, arrived.within(from, time.Second))
}

// Changes leave enough backends, and bring new ones. None makes half of what there was lately of them.
func TestChangesOfBackends(t *testing.T) {
	tr := newTrial("static", Config{}, &robustness.Env{Outcome: robustness.Outcome{Counts: &robustness.Counts{}}}, &clock{}, rand.New(rand.NewPCG(1, 0)))
	defer tr.backends.stop(nil)
	tr.source = newStatic(tr)
	for range 100 {
		before := tr.live
		tr.change()
		assert.GreaterOrEqual(t, len(tr.live), fewest)
		assert.LessOrEqual(t, len(tr.live), most)
		assert.NotContains(t, before, tr.live[len(tr.live)-1])
		tr.backends.stop(tr.live)
		assert.Len(t, tr.backends.servers, len(tr.live))
	}
	assert.Less(t, most, 2*fewest)
}

// A new backend cannot be listed before the source knows it; one that a false list leaves out must be.
func TestOnlyKnownRemovalsCountAsAccepted(t *testing.T) {
	o := &observer{clock: &clock{}, resolver: "dns", bound: time.Minute, counts: &robustness.Counts{}, views: map[*view]bool{}}
	list := func(addresses ...string) (endpoints []resolver.Endpoint) {
		for _, address := range addresses {
			endpoints = append(endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: address}}})
		}
		return endpoints
	}
	v := &view{built: o.now()}
	o.views[v] = true
	o.set([]string{"a", "b"})
	o.listedAll()
	o.update(v, list("a", "b"))
	o.listedFalsely()
	o.update(v, list("b", "a"))
	o.set([]string{"a", "b", "c"})
	o.update(v, list("a", "b"))
	assert.True(t, o.verdict.OK(), "%v", o.verdict)
	o.listedAll()
	assert.Equal(t, 1, o.behind())
	o.update(v, list("a", "b", "c"))
	assert.Zero(t, o.behind())
	o.listedFalsely()
	o.update(v, list("a", "b"))
	assert.Equal(t, map[robustness.Promise]int{Removal: 1}, o.verdict.Counts)
	o.update(v, nil)
	assert.Equal(t, map[robustness.Promise]int{Removal: 2, Serving: 1}, o.verdict.Counts)
}
