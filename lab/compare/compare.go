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
	"time"

	"github.com/quorate/quorate/lab/compare/official"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/measure"
	"github.com/quorate/quorate/lab/report"
	"github.com/quorate/quorate/lab/report/comparison"
	"github.com/quorate/quorate/lab/scenario"
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
	// ID names it for programs, Label in a word for tables, and Name in full.
	ID, Label, Name string
	// Description says how it is configured.
	Description string
	// Connect connects the load to a cluster.
	Connect func(endpoints []string) (scenario.Connection, error)
}

// Clients returns those that are compared by default: the official client as it comes and
// tuned, and Quorate, which is the last.
func Clients() []Client {
	return []Client{
		{
			ID: "official", Label: "official", Name: "Official client",
			Description: "etcd client/v3 3.7.3 as it comes, nothing set but endpoints", Connect: official.AsItComes,
		},
		{
			ID: "official-tuned", Label: "tuned", Name: "Official client, tuned",
			Description: fmt.Sprintf("keepalive every %.0f s with a timeout of %.0f s, watches with WithRequireLeader",
				official.KeepAliveTime.Seconds(), official.KeepAliveTimeout.Seconds()),
			Connect: official.Tuned,
		},
		{
			ID: QuorateID, Label: "Quorate", Name: "Quorate",
			Description: "as it comes, nothing set but endpoints", Connect: scenario.Quorate,
		},
	}
}

// Config describes a comparison.
type Config struct {
	// Scenario is what every client is put through. Its Connect, Timeline and Progress
	// are not used.
	Scenario scenario.Config
	// Clients in the order in which they are run. Default [Clients].
	Clients []Client
	// Begin, if set, is called before each client's run, and what it returns is told how
	// the run stands.
	Begin func(c Client, number, of int) (progress func(report.Snapshot))
	// Run runs the experiment. Default [scenario.Run].
	Run func(context.Context, scenario.Config) (report.Report, error)
}

// Result is what came of a comparison.
type Result struct {
	// Document tells it.
	Document comparison.Document
	// Reports are those of the clients that were run, in order.
	Reports []report.Report
}

// Run runs the comparison. The result is valid, as far as it goes, even with an error,
// which joins what kept runs from going on, each with the client's name. Such a run does
// not end the comparison; the end of ctx does, and is no error. What the checks find wrong
// with a client is no error either, see [report.Report.OK]. If the Scenario cannot be run
// at all the result is empty.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if err := cfg.Scenario.Validate(); err != nil {
		return Result{}, err
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
	var result Result
	var errs []error
	for i, c := range cfg.Clients {
		t := trial{client: c, line: &measure.Timeline{}}
		rep, err := t.run(ctx, cfg, cfg.Begin(c, i+1, len(cfg.Clients)))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
		}
		result.Reports = append(result.Reports, rep)
		result.Document.Clients = append(result.Document.Clients, t.document(rep))
		if rep.Interrupted || ctx.Err() != nil {
			result.Document.Interrupted = true
			break
		}
	}
	result.describe(cfg.Scenario.Faults)
	return result, errors.Join(errs...)
}

// trial is one client's run.
type trial struct {
	client    Client
	line      *measure.Timeline
	endpoints []string
	states    bool // the client says what it makes of its endpoints
}

func (t *trial) run(ctx context.Context, cfg Config, progress func(report.Snapshot)) (report.Report, error) {
	s := cfg.Scenario
	s.Timeline, s.Progress = t.line, progress
	s.Connect = func(endpoints []string) (scenario.Connection, error) {
		conn, err := t.client.Connect(endpoints)
		t.endpoints, t.states = endpoints, conn.States != nil
		return conn, err
	}
	return cfg.Run(ctx, s)
}

// lead is how much of the time before a fault a timeline shows.
const lead = time.Second
