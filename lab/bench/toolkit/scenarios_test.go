//go:build experiment

package toolkit

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestScenarios runs two quick ones. No call fails where no backend does.
func TestScenarios(t *testing.T) {
	callTimeout = time.Minute // a busy machine may stall for longer than calls may take that are measured
	for _, name := range []string{"equal", "not-serving"} {
		s := scenarios[slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })]
		for _, p := range policies {
			f := measure(t, s, p)
			assert.Zero(t, f["failed"], "%s, %s", name, p.name)
			switch {
			case p.name != "pick_first":
			case name == "equal":
				assert.InDelta(t, 100, f["greatest-share-%"], 1e-9)
			default:
				assert.Positive(t, f["calls-to-it"], "the one backend that it uses does not serve")
			}
		}
	}
}
