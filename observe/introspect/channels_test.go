package introspect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
)

// attacher is an observer that is attached by a function.
type attacher struct {
	observe.None
	attach func() (detach func())
}

func (a attacher) Attach(introspect.Source) (detach func()) { return a.attach() }

// A client is detached once, also if it is closed twice, and from an observer that returns no detach.
func TestDetachIsCalledOnce(t *testing.T) {
	detached := 0
	counting := attacher{attach: func() func() { return func() { detached++ } }}
	detach := introspect.Attach(observe.Multi(attacher{attach: func() func() { return nil }}, counting), nil)
	detach()
	detach()
	require.Equal(t, 1, detached)
}
