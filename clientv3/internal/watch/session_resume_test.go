package watch

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestResumePoint(t *testing.T) {
	ahead := happened(1, 5, 6)
	ahead.Header = at(1000)
	for _, tc := range []struct {
		name  string
		from  int64
		heard func(*script)
		next  int64
	}{
		{"never confirmed", 0, func(*script) {}, 0},
		{"from now on", 0, func(sc *script) { sc.receives(created(1, 10)) }, 11},
		{"from now on, confirmed by a proxy without a revision", 0, func(sc *script) { sc.receives(created(1, 0)) }, 0},
		{"and then events", 0, func(sc *script) { sc.receives(created(1, 0), happened(1, 7)) }, 8},
		{"a confirmation does not move a given start", 5, func(sc *script) { sc.receives(created(1, 10)) }, 5},
		{"nor a start in the future", 50, func(sc *script) { sc.receives(created(1, 10)) }, 50},
		{"events", 5, func(sc *script) { sc.receives(created(1, 10), happened(1, 5, 7)) }, 8},
		{"events of a server that is ahead", 5, func(sc *script) { sc.receives(created(1, 1000), ahead) }, 7},
		{"events seen before", 5, func(sc *script) { sc.receives(created(1, 10), happened(1, 6), happened(1, 5, 6)) }, 7},
		{"progress", 5, func(sc *script) { sc.receives(created(1, 10), progressed(1, 20)) }, 21},
		{"progress for all", 5, func(sc *script) { sc.receives(created(1, 10)); sc.learns(20) }, 21},
		{"progress from before the start", 50, func(sc *script) { sc.receives(created(1, 10), progressed(1, 20)) }, 50},
		{"progress for all from before the start", 50, func(sc *script) { sc.receives(created(1, 10)); sc.learns(20) }, 50},
		{"progress without a revision", 5, func(sc *script) { sc.receives(created(1, 10), progressed(1, 0)); sc.learns(0) }, 5},
		{"a fragment", 5, func(sc *script) { sc.receives(created(1, 10), fragment(1, 5, 6)) }, 6},
		{"fragments", 5, func(sc *script) { sc.receives(created(1, 10), fragment(1, 5, 6), happened(1, 6, 8)) }, 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sc := connected(t)
			f := sc.follow(tc.from)
			tc.heard(sc)
			assert.Equal(t, tc.next, f.sub.next)
			sc.reconnect()
			assert.Equal(t, tc.next, sc.ss.take()[0].GetCreateRequest().StartRevision)
		})
	}
}

func TestFragments(t *testing.T) {
	sc := connected(t)
	fs := sc.follows(2)
	sc.receives(created(1, 10), created(2, 10))
	sc.receives(fragment(1, 11, 12), fragment(2, 11), fragment(1, 12), happened(2, 12), happened(1, 12, 13))
	assert.Equal(t, []string{"created", "events [11]", "events [12 12 12 13]"}, fs[0].was())
	assert.Equal(t, []string{"created", "events [11 12]"}, fs[1].was())
}

func TestFragmentsBrokenInBetween(t *testing.T) {
	sc := connected(t)
	f := sc.follow(5)
	sc.receives(created(1, 10), fragment(1, 5, 6))
	sc.reconnect()
	sc.sends("create 2 from 6")
	sc.receives(created(2, 10), fragment(2, 6, 6), happened(2, 6, 7))
	assert.Equal(t, []string{"created", "events [5]", "created", "events [6 6 6 7]"}, f.was())
}

// Progress for all does not complete a fragmented batch.
func TestProgressBetweenFragments(t *testing.T) {
	sc := connected(t)
	f := sc.follow(5)
	sc.receives(created(1, 10), fragment(1, 5, 6))
	sc.learns(20)
	assert.EqualValues(t, 6, f.sub.next)
	sc.receives(happened(1, 6, 7))
	assert.Equal(t, []string{"created", "events [5]", "events [6 6 7]"}, f.was())
}

// Live subscriptions come first, in the order of their creation, then requested ones, then waiting ones.
func TestResumeKeepsTheOrder(t *testing.T) {
	sc := connected(t)
	fs := sc.follows(2)
	sc.receives(created(1, 10), created(2, 20))
	asked, waiting := sc.follow(30), sc.follow(40)
	sc.sends("create 1 from 0", "create 2 from 0", "create 3 from 30", "create 4 from 40")
	sc.reconnect()
	sc.sends("create 5 from 11")
	sc.reconnect()
	sc.ss.remove(fs[1].sub)
	sc.sends("create 6 from 11")
	sc.receives(created(6, 50))
	sc.sends("create 7 from 30", "create 8 from 40")
	sc.receives(created(7, 50), happened(7, 30), created(8, 51), happened(8, 40))
	assert.Equal(t, []string{"created", "events [30]"}, asked.was())
	assert.Equal(t, []string{"created", "events [40]"}, waiting.was())
}
