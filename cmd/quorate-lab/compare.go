package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/faults"
	"github.com/quorate/quorate/lab/robustness/report"
)

// runComparison runs the experiment with several clients and prints the result. Only
// Quorate's own violations make it fail.
func (f faultsFlags) runComparison(cmd *cobra.Command, run faults.Runner) error {
	clients := faults.Clients()
	if len(f.clients) > 0 {
		clients = slices.DeleteFunc(clients, func(c faults.Client) bool { return !slices.Contains(f.clients, c.ID) })
	}
	for i := range clients {
		if f.once && clients[i].ID == faults.QuorateID {
			clients[i].Description, clients[i].Connect = "writes are idempotent, otherwise as it comes", quorate.Idempotent
		}
	}
	result, err := faults.Compare(cmd.Context(), f.Config, clients, f.rounds, run)
	if len(result.Runs) == 0 {
		return err
	}
	err = errors.Join(err, show(cmd, f.json, result, report.ComparisonTable))
	var verdict robustness.Verdict
	for _, c := range result.Runs {
		if c.ID == faults.QuorateID {
			verdict.Merge(c.Report.Verdict)
		}
	}
	return conclude(cmd, verdict, result.Interrupted, err)
}
