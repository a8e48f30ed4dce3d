package channel

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/connectivity"
)

func TestConnectionsKnowWhichEndpointsFail(t *testing.T) {
	s := newConnections()
	a, b := s.fake("a"), s.fake("b")
	reachableIn := func(conns ...*connection) bool { return s.allIn(conns, true) }

	assert.True(t, reachableIn(a, b))
	assert.False(t, reachableIn(a), "b may be on its way")

	for _, state := range []connectivity.State{connectivity.Connecting, connectivity.TransientFailure, connectivity.Idle, connectivity.Connecting} {
		b.note(state)
	}
	assert.True(t, reachableIn(a), "b failed, and is being tried again")
	assert.False(t, s.allIn([]*connection{a}, false))

	b.note(connectivity.Ready)
	b.note(connectivity.Idle)
	assert.False(t, reachableIn(a), "b was there when it was last tried")

	b.Shutdown()
	assert.True(t, s.allIn([]*connection{a}, false), "b is no endpoint any more")
	b.note(connectivity.TransientFailure)
	b.Shutdown()
	assert.True(t, b.isGone())
	assert.False(t, a.isGone())
	assert.Len(t, s.failing, 1)

	a.Shutdown()
	assert.False(t, s.allIn([]*connection{a, b}, false), "there may be others in a moment")
}

// An endpoint that refused and was removed does not stand for the one that
// took its place.
func TestRefusalsOfEndpointsThatAreGoneDoNotCount(t *testing.T) {
	s := newConnections()
	a, b := s.fake("a"), s.fake("b")
	var r refusals
	r.add(a)
	a.Shutdown()
	c := s.fake("c")
	r.add(b)
	r.add(b)
	assert.False(t, r.byAll(b, 2))
	r.add(c)
	assert.True(t, r.byAll(c, 2))
	assert.Equal(t, []*connection{b, c}, r.conns)
}
