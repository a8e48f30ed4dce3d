package faults

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// answer is what a member says of the leader, and whether it is a new one.
type answer struct {
	member       int
	leader, term uint64
	isNew        bool
}

func TestLeadership(t *testing.T) {
	const a, b = 0xa, 0xb
	standing := []answer{{0, a, 2, false}, {1, a, 2, false}, {2, a, 2, false}}
	for name, then := range map[string][]answer{
		"nothing happens": {{0, a, 2, false}, {1, a, 2, false}},
		"a new leader is reported once, whoever hears of it": {
			{1, 0, 2, false}, {1, b, 3, true}, {1, b, 3, false}, {2, b, 3, false}, {0, b, 3, false},
		},
		"the leader is named before its term": {
			{1, b, 2, true}, {1, b, 3, false}, {2, b, 2, false}, {2, b, 3, false},
		},
		"one that is cut off goes on to name the old one": {
			{1, b, 2, true}, {0, a, 2, false}, {1, b, 3, false}, {0, a, 2, false}, {0, 0, 2, false}, {0, b, 3, false},
		},
		"a follower that is cut off loses the leader and finds it again": {
			{2, 0, 2, false}, {2, a, 2, false},
		},
		"the same leader is elected again": {
			{0, 0, 2, false}, {1, 0, 2, false}, {1, a, 2, false}, {1, a, 3, true}, {0, a, 3, false}, {2, a, 3, false},
		},
		"leadership comes and goes": {
			{1, b, 3, true}, {1, a, 4, true}, {0, b, 3, false}, {0, a, 4, false}, {1, b, 5, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l leadership
			for i, s := range append(standing[:len(standing):len(standing)], then...) {
				assert.Equal(t, s.isNew, l.report(s.member, s.leader, s.term), "answer %d: %+v", i, s)
			}
		})
	}
}
