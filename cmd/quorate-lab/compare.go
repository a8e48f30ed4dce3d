package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/compare"
	"github.com/quorate/quorate/lab/robustness/report"
	"github.com/quorate/quorate/lab/robustness/scenario"
)

// runComparison runs the experiment with several clients and prints the result. Only
// Quorate's own violations make it fail.
func (f faultsFlags) runComparison(cmd *cobra.Command, cfg scenario.Config, run scenarioRunner) error {
	stderr := cmd.ErrOrStderr()
	clients := compare.Clients()
	if len(f.clients) > 0 {
		clients = slices.DeleteFunc(clients, func(c compare.Client) bool { return !slices.Contains(f.clients, c.ID) })
	}
	for i := range clients {
		if f.once && clients[i].ID == compare.QuorateID {
			clients[i].Description, clients[i].Connect = "writes are idempotent, otherwise as it comes", quorate.Idempotent
		}
	}
	result, err := compare.Run(cmd.Context(), compare.Config{
		Scenario: cfg, Run: run, Clients: clients, Rounds: f.rounds,
		Begin: func(c compare.Client, number, of int) func(report.Snapshot) {
			_, _ = fmt.Fprintf(stderr, "%s (%d of %d): %s\n", c.Name, number, of, c.Description) // progress is not the result
			return report.NewLines(stderr).Show
		},
	})
	if len(result.Runs) == 0 {
		return err
	}
	show := report.ComparisonTable
	if f.json {
		show = report.ComparisonJSON
	}
	if printErr := show(cmd.OutOrStdout(), result); printErr != nil {
		return errors.Join(err, fmt.Errorf("print the result: %w", printErr))
	}
	for _, c := range result.Runs {
		if c.ID == compare.QuorateID && !c.Report.OK() {
			return errors.Join(violations(c.Report), err)
		}
	}
	if err == nil && result.Interrupted {
		return endedEarly(cmd.Context())
	}
	return err
}

// endedEarly is the end of a run by its context.
func endedEarly(ctx context.Context) error {
	return fmt.Errorf("the run was ended early: %w", context.Cause(ctx))
}
