package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/faults"
)

type faultsFlags struct {
	faults.Config
	names      []string
	compare    bool
	clients    []string
	idempotent bool
}

func newFaultsCommand(run faults.Runner) *cobra.Command {
	var flags faultsFlags
	cmd := &cobra.Command{
		Use:   "faults",
		Short: "Run a real etcd cluster, break it, and show what callers of Quorate see",
		Long:  faultsHelp(),
		Example: `  # Everything, about a minute and a half:
  quorate-lab faults

  # Two faults, ten seconds each:
  quorate-lab faults --fault stop,blackhole --duration 10s

  # The official client and Quorate under the same faults:
  quorate-lab faults --compare

  # One fault, two clients:
  quorate-lab faults --fault nat --compare --client official,quorate`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd, run) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&flags.names, "fault", nil, "inject only this `name`d fault; repeat it or separate names by commas, in the order wanted")
	f.DurationVar(&flags.Hold, "duration", faults.DefaultHold, "how long each fault is held (a fault that is named alone may have a default of its own)")
	f.IntVar(&flags.Members, "members", robustness.DefaultMembers, "members of the cluster, 3 to 9")
	f.IntVar(&flags.Callers, "callers", faults.DefaultCallers, "callers of each of the four kinds of call, and number of watches and of leases")
	f.DurationVar(&flags.Pause, "pause", faults.DefaultPause, "time between two calls of a caller")
	f.DurationVar(&flags.LeaseTTL, "ttl", faults.DefaultLeaseTTL, "time to live of each lease, in whole seconds")
	f.DurationVar(&flags.Election, "election", lab.DefaultElection, "election timeout of the members")
	f.Uint64Var(&flags.Seed, "seed", 0, "seed of the choice of members and keys (default a new one; it is printed)")
	f.BoolVar(&flags.compare, "compare", false, "run the official client, the same tuned, and Quorate, one after the other, and compare")
	f.StringSliceVar(&flags.clients, "client", nil, "compare only these `clients`: "+strings.Join(idsOf(faults.Clients()), ", "))
	f.BoolVar(&flags.idempotent, "idempotent", false, "make Quorate's writes idempotent (clientv3/idempotent)")
	return cmd
}

func faultsHelp() string {
	var b strings.Builder
	b.WriteString(`faults starts a cluster of real etcd processes on this machine, calls it through
Quorate all the time, watches what is written, keeps leases, and injects one fault after
the other. It prints, for each fault, how many gets and puts were completed, in percent
of a healthy spell, which comes first; how many calls failed, or have an unknown outcome;
the longest time without a completed call of a kind, and the slowest call; how late events
were delivered; how many leases were lost. A fault's row goes on until the cluster is healed,
the calls that met the fault have ended, and ` + faults.DefaultRecovery.String() + ` have passed.

Calls, events and claims of leases are checked against the history of the store. The exit
status is 1 if a promise was broken; the report then shows the evidence. A run keeps all
calls and events in memory, about 100 MB for each minute.

Ctrl-C ends the run early: the cluster is healed, checked and removed, and the
table shows what was measured until then. A second Ctrl-C kills at once, and leaves
files in the temporary directory.

--compare puts three clients through the same faults, each on a fresh cluster with
the same seed: the official etcd client as it comes, the same client tuned with
keepalive and WithRequireLeader, and Quorate. Each fault is held for ` + faults.DefaultComparedHold.String() + ` unless
--duration says otherwise, and the faults are
` + strings.Join(faults.DefaultCompared, ", ") + `
unless --fault names others: about seven minutes. The exit status is about Quorate's
own run.

Faults, in the order of a full run:
`)
	for _, f := range fault.Default() {
		fmt.Fprintf(&b, "  %-17s %s\n", f.Name, f.Summary)
	}
	b.WriteString("\nFaults that happen only when they are named:\n")
	for _, f := range fault.All()[len(fault.Default()):] {
		fmt.Fprintf(&b, "  %-17s %s\n", f.Name, f.Summary)
	}
	return strings.TrimRight(b.String(), "\n")
}

func (f faultsFlags) run(cmd *cobra.Command, run faults.Runner) error {
	if err := f.complete(cmd); err != nil {
		return cli.Usage(cmd, err)
	}
	reports, err := faults.Compare(cmd.Context(), f.Config, f.chosen(), run)
	var verdict robustness.Verdict // Quorate's own
	measured, interrupted := false, false
	for _, r := range reports {
		measured, interrupted = measured || len(r.Rows) > 0, interrupted || r.Interrupted
		if r.ID == faults.QuorateID {
			verdict = r.Verdict
		}
	}
	if measured { // a run that never began has no table
		if printErr := faults.Table(cmd.OutOrStdout(), reports); printErr != nil {
			err = errors.Join(err, fmt.Errorf("print the result: %w", printErr))
		}
	}
	return conclude(cmd, verdict, interrupted, err)
}

// chosen returns the clients to run.
func (f faultsFlags) chosen() []faults.Client {
	clients := faults.Clients()
	if len(f.clients) > 0 {
		clients = slices.DeleteFunc(clients, func(c faults.Client) bool { return !slices.Contains(f.clients, c.ID) })
	}
	for i := range clients {
		if f.idempotent && clients[i].ID == faults.QuorateID {
			clients[i].Description, clients[i].Connect = "writes are idempotent, otherwise as it comes", quorate.Idempotent
		}
	}
	return clients
}

// complete completes the configuration, or returns what is wrong with the flags.
// Zeros are refused here because in a Config they mean the default.
func (f *faultsFlags) complete(cmd *cobra.Command) (err error) {
	set := cmd.Flags().Changed
	switch {
	case f.Members == 0 || f.Callers == 0 || f.Hold == 0 || f.Pause == 0 || f.LeaseTTL == 0 || f.Election == 0:
		return errors.New("--members, --callers, --duration, --pause, --ttl and --election must be more than 0")
	case set("fault") && len(f.names) == 0:
		return fmt.Errorf("--fault needs at least one name of %s", strings.Join(fault.Names(fault.All()), ", "))
	case f.compare && len(f.names) == 0:
		f.names = faults.DefaultCompared
	}
	if f.Faults, err = fault.Parse(f.names); err != nil {
		return err
	}
	for _, id := range f.clients {
		if !slices.Contains(idsOf(faults.Clients()), id) {
			return fmt.Errorf("unknown client %q: the clients are %s", id, strings.Join(idsOf(faults.Clients()), ", "))
		}
	}
	if !f.compare {
		f.clients = []string{faults.QuorateID}
	}
	if !set("seed") {
		f.Seed = rand.Uint64()
	}
	if !set("duration") {
		if f.compare {
			f.Hold = faults.DefaultComparedHold
		}
		if len(f.Faults) == 1 {
			f.Hold = cmp.Or(f.Faults[0].Held, f.Hold)
		}
	}
	f.Log = cmd.ErrOrStderr()
	return nil
}

func idsOf(clients []faults.Client) []string {
	out := make([]string, len(clients))
	for i, c := range clients {
		out[i] = c.ID
	}
	return out
}

// conclude returns the error that a command ends with; err is that of the run.
func conclude(cmd *cobra.Command, verdict robustness.Verdict, interrupted bool, err error) error {
	switch total := verdict.Total(); {
	case total > 0:
		return errors.Join(cli.NegativeError(cli.Count(total, "violation")), err)
	case err == nil && interrupted:
		return fmt.Errorf("the run was ended early: %w", context.Cause(cmd.Context()))
	default:
		return err
	}
}
