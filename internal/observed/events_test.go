package observed

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// While an observer blocks, a bounded number of events waits, in order, and the others are
// counted.
func TestWaitingEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []int
		lost := 0
		e := &events{overflowed: func(n int) { lost += n }}
		release := make(chan struct{})
		add := func(tell func()) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.add(tell)
		}
		add(func() { <-release })
		synctest.Wait()
		for i := range maxWaiting + 5 {
			add(func() { told = append(told, i) })
		}
		close(release)
		synctest.Wait()
		assert.Len(t, told, maxWaiting)
		assert.IsIncreasing(t, told)
		assert.Equal(t, 5, lost)
		add(func() { told = nil })
		synctest.Wait()
		assert.Nil(t, told)
	})
}
