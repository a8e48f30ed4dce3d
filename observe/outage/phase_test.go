package outage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPhases checks the phase after each sequence of triggers.
func TestPhases(t *testing.T) {
	start := time.Unix(1e9, 0)
	setUps := map[phase]func(*episode){
		well:    func(*episode) {},
		failing: func(e *episode) { e.fails(start) },
		wavering: func(e *episode) {
			e.fails(start)
			e.serves(start)
		},
		out: func(e *episode) {
			e.fails(start)
			e.lapses()
		},
		recovering: func(e *episode) {
			e.fails(start)
			e.lapses()
			e.serves(start)
		},
	}
	triggers := map[string]func(*episode){
		"fails":  func(e *episode) { e.fails(start) },
		"serves": func(e *episode) { e.serves(start) },
		"lapses": func(e *episode) { e.lapses() },
	}
	require.Len(t, triggers, numTriggers)
	require.Len(t, setUps, numPhases)
	for _, row := range []struct {
		in  phase
		to  map[string]phase
		due time.Duration // after the start; negative: it does not lapse
	}{
		{well, map[string]phase{"fails": failing, "serves": well, "lapses": well}, -1},
		{failing, map[string]phase{"fails": failing, "serves": wavering, "lapses": out}, moment},
		{wavering, map[string]phase{"fails": failing, "serves": wavering, "lapses": well}, moment},
		{out, map[string]phase{"fails": out, "serves": recovering, "lapses": out}, -1},
		{recovering, map[string]phase{"fails": out, "serves": recovering, "lapses": well}, moment},
	} {
		t.Run(row.in.String(), func(t *testing.T) {
			for name, trigger := range triggers {
				var e episode
				setUps[row.in](&e)
				require.Equal(t, row.in, e.phase)
				when, ok := e.due()
				require.Equal(t, row.due >= 0, ok)
				if ok {
					require.Equal(t, row.due, when.Sub(start))
				}
				trigger(&e)
				require.Equal(t, row.to[name], e.phase, name)
			}
		})
	}
}
