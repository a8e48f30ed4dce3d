package faults

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
)

// DefaultComparedHold is how long a fault is held by default in a comparison: as long as the default deadline of
// a call, so that a call which does nothing about the fault fails.
const DefaultComparedHold = DefaultCallTimeout

// QuorateID is the ID of Quorate among [Clients].
const QuorateID = "quorate"

// DefaultCompared returns the faults of a comparison that names none. With DefaultComparedHold they
// take three clients about seven minutes.
func DefaultCompared() []fault.Fault {
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

// Runner is the type of [Run], which tests replace.
type Runner func(context.Context, Config) (report.Report, error)

// Compare runs the experiment several times, in rounds with one client after the other, each on a fresh cluster with the same
// faults and load, and the same seed in a round. The clients never run at the same time: they would take the machine from each
// other. The seed makes them draw the same choices; which members these hit depends on who was elected, since a fault of a
// follower chooses among those who do not lead.
//
// The result is valid, as far as it goes, even with an error,
// which joins what kept runs from going on, each with the client's name. Such a run does
// not end the comparison; the end of ctx does, and is no error. What the checks find wrong
// with a client is no error either, see [report.Report.OK]. If the configuration is wrong the
// result is empty.
func Compare(ctx context.Context, cfg Config, clients []Client, rounds int, run Runner) (report.Comparison, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return report.Comparison{}, err
	}
	var result report.Comparison
	var errs []error
	runs := slices.Repeat(clients, rounds)
	for i, c := range runs {
		_, _ = fmt.Fprintf(cfg.Log, "%s (%d of %d): %s\n", c.Name, i+1, len(runs), c.Description)
		cfg.Connect = c.Connect
		rep, err := run(ctx, cfg)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
		}
		result.Runs = append(result.Runs, report.ClientRun{Client: c.Client, Report: rep})
		if rep.Interrupted || ctx.Err() != nil {
			result.Interrupted = true
			break
		}
		if (i+1)%len(clients) == 0 {
			cfg.Seed++
		}
	}
	return result, errors.Join(errs...)
}
