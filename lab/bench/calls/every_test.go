//go:build experiment

package calls

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEveryCall measures everything so shortly that it shows only that it works.
func TestEveryCall(t *testing.T) {
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			clients := g.start(t)
			for _, o := range g.operations {
				m := newMeasurement(clients, o, 2)
				m.round(t, time.Millisecond)
				for _, row := range g.table.rowsOf(m) {
					require.Len(t, row, len(g.table.head), o.name)
				}
			}
		})
	}
}
