package faults

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/version"

	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/official"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
)

// DefaultComparedHold is how long a fault is held by default in a comparison: as long as the default deadline of
// a call, so that a call which does nothing about the fault fails.
const DefaultComparedHold = DefaultCallTimeout

// QuorateID is the ID of Quorate among [Clients].
const QuorateID = "quorate"

// DefaultCompared are the faults of a comparison that names none. With DefaultComparedHold they
// take three clients about seven minutes.
var DefaultCompared = []string{"kill", "stop", "blackhole", "partition", "leader-kill", "leader-partition"}

// Client is a client to compare.
type Client struct {
	// ID names it for programs, and Label in tables.
	ID, Label string
	// Description says how it was configured.
	Description string
	// Connect connects the load to a cluster.
	Connect func(to client.Target) (client.Connection, error)
}

// Clients returns those that are compared by default: the official client as it comes and
// tuned, and Quorate, which is the last.
func Clients() []Client {
	tuned := fmt.Sprintf("keepalive every %.0f s with a timeout of %.0f s, watches with WithRequireLeader",
		official.KeepAliveTime.Seconds(), official.KeepAliveTimeout.Seconds())
	return []Client{
		{"official", "official", "etcd client/v3 " + version.Version + " as it comes, nothing set but endpoints", official.AsItComes},
		{"official-tuned", "tuned", tuned, official.Tuned},
		{QuorateID, "Quorate", "as it comes, nothing set but endpoints", quorate.Connect},
	}
}

// Runner is the type of [Run], which tests replace.
type Runner func(context.Context, Config) (Report, error)

// Compare runs the experiment with one client after the other, each on a fresh cluster with the same faults, load and seed. The
// clients never run at the same time: they would take the machine from each other. The seed makes them draw the same choices;
// which members these hit depends on who was elected, since a fault of a follower chooses among those who do not lead.
//
// The reports are valid, as far as they go, even with an error. The error joins the failures of runs, each with the client's
// label; a run that fails does not end the comparison. The end of ctx does, and is no error. A violation is no error either, see
// [Report.Verdict]. With a wrong configuration there are no reports.
func Compare(ctx context.Context, cfg Config, clients []Client, run Runner) (reports []Report, err error) {
	if cfg, err = cfg.complete(); err != nil {
		return nil, err
	}
	for i, c := range clients {
		_, _ = fmt.Fprintf(cfg.Log, "%s (%d of %d): %s\n", c.Label, i+1, len(clients), c.Description)
		cfg.Connect = c.Connect
		rep, failed := run(ctx, cfg)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", c.Label, failed))
		}
		rep.Client = c
		reports = append(reports, rep)
		if rep.Interrupted || ctx.Err() != nil {
			break
		}
	}
	return reports, err
}
