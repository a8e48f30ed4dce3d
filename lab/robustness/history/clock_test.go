package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/robustness/history"
)

func TestClock(t *testing.T) {
	clock := history.NewClock([]history.Answer{
		{Sent: 5, Returned: 7, Revision: 11, Call: 1},
		{Sent: 1, Returned: 6, Revision: 9, Call: 2},
		{Sent: 3, Returned: 4, Revision: 12, Call: 3},
		{Sent: 8, Returned: 9, Revision: 14, Call: 4},
	})
	type bounds struct {
		least int64
		call  int
		most  int64
	}
	for at, want := range map[time.Duration]bounds{
		0: {0, 0, 9}, 1: {0, 0, 9}, 2: {0, 0, 11}, 4: {0, 0, 11}, 5: {12, 3, 11}, 6: {12, 3, 14}, 8: {12, 3, 14}, 9: {12, 3, 0}, 10: {14, 4, 0},
	} {
		least, call, answered := clock.AtLeast(at)
		most, asked := clock.AtMost(at)
		assert.Equal(t, want, bounds{least, call, most}, "at %d", at)
		assert.Equal(t, want.least > 0, answered)
		assert.Equal(t, want.most > 0, asked)
	}
}
