package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/bench/fleet/clients"
	"github.com/quorate/quorate/lab/link"
)

const (
	// members is the size of the cluster.
	members = 3
	// healTimeout bounds how long clients may take to recover from a phase before
	// the next one begins.
	healTimeout = 30 * time.Second
	// settlePause is the pause before each phase.
	settlePause = 3 * time.Second
	// healInterval is the time between two looks at their recovery.
	healInterval = 500 * time.Millisecond
)

// rig is a cluster and a fleet.
type rig struct {
	opts    options
	kind    string
	note    func(string)
	cluster *lab.Cluster
	fleet   *fleet

	leader    *lab.Member // when the phase began
	followers []*lab.Member
}

// newRig starts a cluster and a fleet. The rig must be closed.
func newRig(ctx context.Context, opts options, kind string, note func(string)) (*rig, error) {
	first := opts.phases[0]
	cluster, err := lab.Start(ctx, lab.Config{Members: members, TLS: first.tls})
	if err != nil {
		return nil, err
	}
	r := &rig{opts: opts, kind: kind, note: note, cluster: cluster}
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

// settle ends what phases before have done, waits until the clients have recovered, and
// starts the load of the next phase.
func (r *rig) settle(ctx context.Context, next phase) error {
	if err := r.heal(ctx); err != nil {
		return err
	}
	if err := r.fleet.setLoad(ctx, next.deadline); err != nil {
		return err
	}
	if next.deadline > 0 {
		if err := r.awaitAnswers(ctx, next); err != nil {
			return err
		}
	}
	return pause.For(ctx, settlePause)
}

// heal starts what does not run, and finds the leader.
func (r *rig) heal(ctx context.Context) error {
	r.cluster.Heal()
	all := r.cluster.Members()
	var work errgroup.Group
	for _, m := range all {
		work.Go(func() error {
			if !m.Alive() {
				return m.Restart(ctx)
			}
			return m.Continue()
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	err := r.cluster.WaitReady(ctx)
	if err != nil {
		return err
	}
	if r.leader, err = r.cluster.Leader(ctx); err != nil {
		return err
	}
	r.followers = nil
	for _, m := range all {
		if m != r.leader {
			r.followers = append(r.followers, m)
		}
	}
	return nil
}

// awaitAnswers waits until a get of each client is answered. Clients that do not get
// that far in time are noted and measured as they are.
func (r *rig) awaitAnswers(ctx context.Context, next phase) error {
	if err := r.fleet.mark(ctx); err != nil {
		return err
	}
	for begun := time.Now(); ; {
		s, err := r.fleet.state(ctx)
		if err != nil {
			return err
		}
		missing := r.opts.clients - s.HaveAnswers
		if missing == 0 {
			return nil
		}
		if time.Since(begun) > healTimeout {
			r.note(fmt.Sprintf("%s: before %s, %d of %d clients have no answer for %v on a healthy cluster",
				r.kind, next.name, missing, r.opts.clients, healTimeout))
			return nil
		}
		if err := pause.For(ctx, healInterval); err != nil {
			return err
		}
	}
}
