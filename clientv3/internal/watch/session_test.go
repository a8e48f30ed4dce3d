package watch

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFirstCreateIsSentAlone(t *testing.T) {
	sc := connected(t)
	fs := sc.follows(4)
	sc.sends("create 1 from 0")
	sc.receives(created(1, 10))
	sc.sends("create 2 from 0", "create 3 from 0", "create 4 from 0")
	sc.receives(created(2, 10), created(3, 10), created(4, 11))
	for _, f := range fs {
		assert.Equal(t, []string{"created"}, f.was())
	}
	sc.follows(2)
	sc.sends("create 5 from 0", "create 6 from 0")
}

func TestNothingIsSentWithoutAStream(t *testing.T) {
	sc := &script{t, newSession()}
	f := sc.follow(7)
	sc.sends()
	sc.ss.remove(f.sub)
	sc.follow(8)
	sc.connect()
	sc.sends("create 1 from 8")
}

func TestSerialWhereIDsAreNotEchoed(t *testing.T) {
	sc := connected(t)
	fs := sc.follows(3)
	sc.sends("create 1 from 0")
	sc.receives(created(0, 10))
	sc.sends("create 2 from 0")
	sc.receives(happened(0, 11))
	sc.sends()
	sc.receives(refused("no"))
	sc.sends("create 3 from 0")
	sc.receives(created(1, 11), happened(1, 12))
	assert.Equal(t, []string{"created", "events [11]"}, fs[0].was())
	assert.Equal(t, []string{"refused: no"}, fs[1].was())
	assert.Equal(t, []string{"created", "events [12]"}, fs[2].was())
	sc.reconnect()
	sc.sends("create 4 from 12")
	sc.receives(created(4, 20))
	sc.sends("create 5 from 13")
}

// A proxy's first id is 0. Events for that id before its confirmation do not belong to a cancelled watch.
func TestSerialEventsBeforeTheFirstConfirmation(t *testing.T) {
	sc := connected(t)
	f := sc.follow(5)
	sc.breaks(happened(0, 5), "not created yet")
	sc.sends("create 2 from 5")
	assert.Empty(t, f.was())
}

func TestSerialAfterConfusion(t *testing.T) {
	sc := connected(t)
	sc.follows(3)
	sc.sends("create 1 from 0")
	sc.receives(created(1, 10))
	sc.sends("create 2 from 0", "create 3 from 0")
	sc.breaks(created(3, 10), "watch 3 was created in place of 2")
	for _, step := range []struct {
		sends string
		id    int64
	}{{"create 4 from 11", 4}, {"create 5 from 0", 5}, {"create 6 from 0", 6}} {
		sc.sends(step.sends)
		sc.receives(created(step.id, 10))
	}
	sc.reconnect()
	sc.sends("create 7 from 11")
}

func TestSerialIDGivenTwice(t *testing.T) {
	sc := connected(t)
	sc.follows(2)
	sc.receives(created(8, 10))
	sc.breaks(created(8, 10), "watch id 8 was given twice")
	sc.receives(created(8, 10))
}

func TestRefusalsAreMatchedInOrder(t *testing.T) {
	sc := connected(t)
	fs := sc.follows(5)
	sc.sends("create 1 from 0")
	sc.receives(refused("first"))
	sc.sends("create 2 from 0")
	sc.receives(created(2, 10))
	sc.sends("create 3 from 0", "create 4 from 0", "create 5 from 0")
	sc.ss.remove(fs[3].sub)
	sc.receives(refused("third"), refused("fourth"), created(5, 10))
	assert.Equal(t, []string{"refused: first"}, fs[0].was())
	assert.Equal(t, []string{"created"}, fs[1].was())
	assert.Equal(t, []string{"refused: third"}, fs[2].was())
	assert.Empty(t, fs[3].was())
	assert.Equal(t, []string{"created"}, fs[4].was())
	sc.sends()
	sc.reconnect()
	sc.sends("create 6 from 11")
	sc.receives(created(6, 12))
	sc.sends("create 7 from 11")
}

func TestRemove(t *testing.T) {
	sc := connected(t)
	fs := sc.follows(4)
	sc.sends("create 1 from 0")
	sc.ss.remove(fs[0].sub) // requested
	sc.ss.remove(fs[2].sub) // waiting
	sc.sends()
	sc.receives(created(1, 10))
	sc.sends("cancel 1", "create 2 from 0", "create 3 from 0")
	sc.receives(created(2, 10), created(3, 10))
	sc.ss.remove(fs[1].sub) // confirmed
	sc.ss.remove(fs[1].sub)
	sc.sends("cancel 2")
	sc.receives(happened(1, 11), happened(2, 11), fragment(2, 12), canceled(1), happened(2, 12), canceled(2), canceled(2), happened(3, 11))
	assert.Empty(t, fs[0].was())
	assert.Equal(t, []string{"created"}, fs[1].was())
	assert.Empty(t, fs[2].was())
	assert.Equal(t, []string{"created", "events [11]"}, fs[3].was())
	sc.reconnect()
	sc.sends("create 4 from 12")
}

func TestRemoveAndAddAgainGetsAnotherID(t *testing.T) {
	sc := connected(t)
	fs := sc.follows(2)
	sc.receives(created(1, 10))
	sc.sends("create 1 from 0", "create 2 from 0")
	sc.ss.remove(fs[0].sub)
	sc.ss.remove(fs[1].sub)
	sc.ss.add(fs[0].sub)
	sc.ss.add(fs[1].sub)
	sc.sends("cancel 1", "create 3 from 11", "create 4 from 0")
	sc.receives(created(2, 10), happened(2, 11), canceled(1), created(3, 11), created(4, 12), happened(3, 11))
	sc.sends("cancel 2")
	assert.Equal(t, []string{"created", "created", "events [11]"}, fs[0].was())
	assert.Equal(t, []string{"created"}, fs[1].was())
	assert.EqualValues(t, 13, fs[1].sub.next)
}

// A held stream sends no further creates. Existing watches continue, and the next stream is not held.
func TestHold(t *testing.T) {
	sc := connected(t)
	fs := sc.follows(3)
	sc.sends("create 1 from 0")
	sc.ss.hold()
	sc.receives(created(1, 10))
	sc.sends()
	more := sc.follow(5)
	sc.ss.remove(fs[2].sub)
	sc.receives(happened(1, 11))
	sc.sends()
	assert.Equal(t, []string{"created", "events [11]"}, fs[0].was())
	sc.reconnect()
	sc.sends("create 2 from 12")
	sc.receives(created(2, 12))
	sc.sends("create 3 from 0", "create 4 from 5")
	sc.receives(created(3, 12), created(4, 12))
	assert.Equal(t, []string{"created"}, fs[1].was())
	assert.Empty(t, fs[2].was())
	assert.Equal(t, []string{"created"}, more.was())
}

func TestOwnersMayAddAndRemoveInCallbacks(t *testing.T) {
	sc := connected(t)
	fs := sc.follows(3)
	fs[0].then = func() { sc.ss.add(fs[0].sub) }
	fs[1].then = func() { sc.ss.remove(fs[1].sub) }
	sc.sends("create 1 from 0")
	sc.receives(refused("try again"))
	sc.sends("create 2 from 0")
	sc.receives(created(2, 10))
	sc.sends("cancel 2", "create 3 from 0", "create 4 from 0")
	places, err := whereabouts(sc.ss)
	require.NoError(t, err)
	assert.Equal(t, map[*subscription]state{fs[2].sub: asked, fs[0].sub: asked}, places)
}

func TestServerCancels(t *testing.T) {
	sc := connected(t)
	f := sc.follow(5)
	sc.receives(created(1, 10))
	sc.sends("create 1 from 5")
	sc.receives(compacted(1, 8))
	sc.sends("cancel 1") // the server's record of the watch blocks progress
	sc.receives(compacted(1, 8), canceled(1), happened(1, 9))
	assert.Equal(t, []string{"created", "canceled, compacted 8"}, f.was())
	assert.Equal(t, parked, f.sub.state)

	g := sc.follow(10)
	sc.receives(created(2, 10), canceled(2))
	sc.sends("create 2 from 10")
	assert.Equal(t, []string{"created", "canceled, compacted 0"}, g.was())
	sc.reconnect()
	sc.sends()
}

func TestDisorderBreaksTheStream(t *testing.T) {
	sc := connected(t)
	f := sc.follow(5)
	sc.receives(created(1, 10), happened(1, 5, 6))
	sc.sends("create 1 from 5")
	sc.breaks(happened(2, 7), "response for watch 2, which is not created yet")
	sc.sends("create 2 from 7")
	sc.receives(created(2, 10), created(2, 10), happened(2, 6, 7)) // repeated
	sc.breaks(created(3, 10), "watch 3 was created, and nobody asked for it")
	sc.sends("create 3 from 8")
	sc.breaks(progressed(3, 12), "not created yet")
	sc.sends("create 4 from 8")
	sc.breaks(happened(2, 8), "response for watch 2, which is not created yet") // created on the previous stream
	sc.sends("create 5 from 8")
	assert.Equal(t, []string{"created", "events [5 6]", "created", "events [7]"}, f.was())
}
