package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keep leaves some scenarios and policies for a test.
func keep(t *testing.T, scenarioNames, policyNames []string) {
	allScenarios, allPolicies := scenarios, policies
	t.Cleanup(func() { scenarios, policies = allScenarios, allPolicies })
	scenarios = slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool { return !slices.Contains(scenarioNames, s.name) })
	policies = slices.DeleteFunc(slices.Clone(policies), func(p policy) bool { return !slices.Contains(policyNames, p.name) })
}

// TestScenarios runs two quick ones. No call fails where no backend does.
func TestScenarios(t *testing.T) {
	keep(t, []string{"equal", "not-serving"}, []string{"quorate_p2c", "quorate_round_robin", "round_robin", "outlier_detection", "pick_first"})
	callTimeout = time.Minute // a busy machine may stall for longer than calls may take that are measured
	rows, err := measureAll(t.Context(), 1, func(_ context.Context, s scenario, p policy) ([]figure, error) { return measure(s, p) })
	require.NoError(t, err)
	medians := make(map[string]map[string]float64)
	for _, r := range rows {
		medians[r.Scenario+", "+r.Figure] = r.Medians
		assert.Len(t, r.Medians, len(policies), r.Figure)
	}
	for _, p := range policies {
		assert.Zero(t, medians["equal, failed calls"][p.name], p.name)
		assert.Zero(t, medians["not-serving, failed calls"][p.name], p.name)
	}
	assert.InDelta(t, 100, medians["equal, greatest share, %"]["pick_first"], 1e-9)
	assert.Positive(t, medians["not-serving, calls to it"]["pick_first"], "the one backend that it uses does not serve")
}

func TestTable(t *testing.T) {
	keep(t, []string{"slow", "rolling"}, []string{"quorate_p2c", "pick_first"})
	failure := errors.New("no files left")
	values := make(chan float64, 6)
	for _, v := range []float64{30, 10, 20} {
		values <- v
	}
	fake := func(_ context.Context, s scenario, p policy) ([]figure, error) {
		switch {
		case s.name == "slow":
			return []figure{{"calls", 1234.56}}, nil
		case p.name == "pick_first":
			return []figure{{"least", 0.001}, {"greatest", 1.0 / 3}}, nil
		case len(values) == 0:
			return nil, failure
		}
		return []figure{{"least", 12.96}, {"greatest", <-values}}, nil
	}
	rows, err := measureAll(t.Context(), 3, fake)
	require.NoError(t, err)
	assert.Equal(t, ""+
		"| scenario | figure | `quorate_p2c` | `pick_first` |\n"+
		"|---|---|---|---|\n"+
		"| slow | calls | 1,235 | 1,235 |\n"+
		"| rolling | least | 13 | 0 |\n"+
		"|  | greatest | 20 | 0.33 |\n", table(rows))

	_, err = measureAll(t.Context(), 1, fake)
	assert.ErrorIs(t, err, failure)
}
