// Package compare runs the lab's experiment several times, with one client after the
// other, each on a fresh cluster with the same faults, load and seed, and lays the
// results side by side.
//
// The clients never run at the same time: they would take the machine from each other.
// The seed makes them draw the same choices; which members these hit depends on who was
// elected, since a fault of a follower chooses among those who do not lead.
package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/official"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/report"
	"github.com/quorate/quorate/lab/robustness/scenario"
)

// DefaultHold is how long a fault is held by default: as long as the default deadline of
// a call, so that a call which does nothing about the fault fails.
const DefaultHold = scenario.DefaultCallTimeout

// QuorateID is the ID of Quorate among [Clients].
const QuorateID = "quorate"

// DefaultFaults returns the faults of a comparison that names none. With DefaultHold they
// take three clients about seven minutes.
func DefaultFaults() []fault.Fault {
	faults, err := fault.Parse([]string{"kill", "stop", "blackhole", "partition", "leader-kill", "leader-partition"})
	if err != nil {
		panic(err) // a name that is written here is misspelt
	}
	return faults
}

// Client is a client to compare.
type Client struct {
	report.Client
	// Connect connects the load to a cluster.
	Connect func(to client.Target) (client.Connection, error)
}

// Clients returns those that are compared by default: the official client as it comes and
// tuned, and Quorate, which is the last.
func Clients() []Client {
	return []Client{
		{report.Client{
			ID: "official", Label: "official", Name: "Official client",
			Description: "etcd client/v3 3.7.3 as it comes, nothing set but endpoints",
		}, official.AsItComes},
		{report.Client{
			ID: "official-tuned", Label: "tuned", Name: "Official client, tuned",
			Description: fmt.Sprintf("keepalive every %.0f s with a timeout of %.0f s, watches with WithRequireLeader",
				official.KeepAliveTime.Seconds(), official.KeepAliveTimeout.Seconds()),
		}, official.Tuned},
		{report.Client{
			ID: QuorateID, Label: "Quorate", Name: "Quorate",
			Description: "as it comes, nothing set but endpoints",
		}, quorate.Connect},
	}
}

// Config describes a comparison.
type Config struct {
	// Scenario is what every client is put through. Its Connect and Progress are
	// not used.
	Scenario scenario.Config
	// Clients in the order in which they are run. Default [Clients].
	Clients []Client
	// Rounds is how often each client is run, one round after the other. Default 1.
	Rounds int
	// Begin, if set, is called before each client's run, and what it returns is called with how
	// the run stands.
	Begin func(c Client, number, of int) (progress func(report.Snapshot))
	// Run runs the experiment. Default [scenario.Run].
	Run func(context.Context, scenario.Config) (report.Report, error)
}

// Run runs the comparison. The result is valid, as far as it goes, even with an error,
// which joins what kept runs from going on, each with the client's name. Such a run does
// not end the comparison; the end of ctx does, and is no error. What the checks find wrong
// with a client is no error either, see [report.Report.OK]. If the Scenario cannot be run
// at all the result is empty.
func Run(ctx context.Context, cfg Config) (report.Comparison, error) {
	if err := cfg.Scenario.Validate(); err != nil {
		return report.Comparison{}, err
	}
	if cfg.Clients == nil {
		cfg.Clients = Clients()
	}
	if cfg.Run == nil {
		cfg.Run = scenario.Run
	}
	if cfg.Begin == nil {
		cfg.Begin = func(Client, int, int) func(report.Snapshot) { return nil }
	}
	var result report.Comparison
	var errs []error
	runs := slices.Repeat(cfg.Clients, max(cfg.Rounds, 1))
	for i, c := range runs {
		s := cfg.Scenario
		s.Seed += uint64(i / len(cfg.Clients))
		s.Connect, s.Progress = c.Connect, cfg.Begin(c, i+1, len(runs))
		rep, err := cfg.Run(ctx, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
		}
		result.Runs = append(result.Runs, report.ClientRun{Client: c.Client, Report: rep})
		if rep.Interrupted || ctx.Err() != nil {
			result.Interrupted = true
			break
		}
	}
	return result, errors.Join(errs...)
}
