package health

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A table outlives its users: it keeps nothing of those that are gone.
func TestFeedForgetsSubscribers(t *testing.T) {
	var f feed
	cancel := f.subscribe(func(Change) {})
	assert.Len(t, f.subs, 1)
	cancel()
	assert.Empty(t, f.subs)
	f.add(Change{})
	assert.Empty(t, f.queue, "there is no subscriber")
}
