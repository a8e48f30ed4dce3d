package main

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/bench/fleet/clients"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/lab/servers"
)

const (
	// members is the size of the cluster.
	members = 3
	// healTimeout bounds how long clients may take to recover from a phase before
	// the next one begins.
	healTimeout = 30 * time.Second
	// settlePause is the pause before each phase.
	settlePause = 3 * time.Second
	// lookEvery is the time between two looks at who was answered.
	lookEvery = 100 * time.Millisecond
)

// rig is a cluster and a fleet.
type rig struct {
	opts     options
	kind     servers.Client
	progress func(string)
	cluster  *lab.Cluster
	fleet    *fleet

	leader    *lab.Member // when the phase began
	followers []*lab.Member
}

// newRig starts a cluster and a fleet. The rig must be closed.
func newRig(ctx context.Context, opts options, kind servers.Client, progress func(string)) (*rig, error) {
	first := opts.phases[0]
	cluster, err := lab.Start(ctx, lab.Config{Members: members, TLS: first.tls})
	if err != nil {
		return nil, err
	}
	r := &rig{opts: opts, kind: kind, progress: progress, cluster: cluster}
	job := clients.Job{Endpoints: cluster.Endpoints()}
	if files := cluster.TLSFiles(); first.tls {
		job.CA, job.Cert, job.Key = files.CA, files.ClientCert, files.ClientKey
	}
	if first.direct {
		for i, m := range cluster.Members() {
			job.Endpoints[i] = m.DirectEndpoint()
		}
	}
	if r.fleet, err = startFleet(ctx, opts, kind, job); err != nil {
		_ = cluster.Close() // the first error says more
		return nil, err
	}
	return r, nil
}

func (r *rig) close() error {
	r.fleet.close()
	return r.cluster.Close()
}

// links returns the links from the clients to the members.
func (r *rig) links() []*link.Link {
	links := make([]*link.Link, 0, members)
	for _, m := range r.cluster.Members() {
		links = append(links, r.cluster.ClientLink(m))
	}
	return links
}

// measure ends what phases before have done, waits until the clients have recovered, and measures a phase. An error ends it,
// as it ends all that it calls: see package fatal.
func (r *rig) measure(ctx context.Context, p phase) []row {
	fatal.If(fault.Heal(ctx, fault.Scene{Cluster: r.cluster}))
	r.leader = fatal.OK(r.cluster.Leader(ctx))
	r.followers = r.cluster.Others(r.leader)
	r.fleet.setLoad(ctx, p.deadline)
	if p.deadline > 0 {
		r.fleet.mark(ctx)
		r.allServed(ctx, time.Now(), healTimeout, "before "+p.name)
	}
	fatal.If(pause.For(ctx, settlePause))
	r.progress(fmt.Sprintf("%s: %s, %v", r.kind, p.name, p.length))
	if p.alone != nil {
		return p.alone(ctx, r, p.length)
	}
	return r.sample(ctx, p)
}

// allServed returns how long after a time a get of each client has been answered since the last mark. It waits
// so long at most; clients that have no answer then are reported, and measured as they are.
func (r *rig) allServed(ctx context.Context, since time.Time, atMost time.Duration, when string) time.Duration {
	for {
		missing := r.opts.clients - r.fleet.state(ctx).HaveAnswers
		switch took := time.Since(since); {
		case missing == 0:
			return took
		case took > atMost:
			r.progress(fmt.Sprintf("%s: %s, %d of %d clients have no answer for %v", r.kind, when, missing, r.opts.clients, atMost))
			return atMost
		}
		fatal.If(pause.For(ctx, lookEvery))
	}
}
