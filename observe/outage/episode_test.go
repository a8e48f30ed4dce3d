package outage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
	for _, row := range []struct {
		name string
		in   phase
		to   map[string]phase
		due  time.Duration // after the start; negative: it does not lapse
	}{
		{"well", well, map[string]phase{"fails": failing, "serves": well, "lapses": well}, -1},
		{"failing", failing, map[string]phase{"fails": failing, "serves": wavering, "lapses": out}, moment},
		{"wavering", wavering, map[string]phase{"fails": failing, "serves": wavering, "lapses": well}, moment},
		{"out", out, map[string]phase{"fails": out, "serves": recovering, "lapses": out}, -1},
		{"recovering", recovering, map[string]phase{"fails": out, "serves": recovering, "lapses": well}, moment},
	} {
		t.Run(row.name, func(t *testing.T) {
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
