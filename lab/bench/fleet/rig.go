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
	"github.com/quorate/quorate/lab/internal/scrape"
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
	// lookEvery is the time between two checks of which clients were answered.
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

// measure undoes earlier phases, waits until the clients have recovered, and measures a phase. An error ends it, as it ends
// all that it calls: see package fatal.
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

// sample measures a phase as usual. It reads the members first and last, so that they count every get that a client counts.
func (r *rig) sample(ctx context.Context, p phase) []row {
	opened, began := reached(r.links()), time.Now()
	read := fatal.OK(readLive(ctx, r.cluster.Members()))
	before := r.fleet.state(ctx)
	if p.begin != nil {
		p.begin(r)
	}
	fatal.If(pause.For(ctx, p.length))
	after := r.fleet.state(ctx)
	seconds := time.Since(began).Seconds()
	members := fatal.OK(countedSince(ctx, r.cluster.Members(), read))
	answered, failed := float64(after.Answered-before.Answered), float64(after.Failed-before.Failed)
	clients := float64(r.opts.clients)
	// A get of each client may have been received before the measurement began.
	if p.begin == nil && members.rpcs+clients < answered {
		fatal.If(fmt.Errorf("the members count %.0f RPCs, and the clients %.0f answers", members.rpcs, answered))
	}
	rows := []row{
		{"RPCs received, per client and second", "", members.rpcs / clients / seconds},
		{"CPU of the live members, of one core", percent, 100 * members.cpu / seconds},
		{"connections opened", "", reached(r.links()) - opened},
	}
	if p.deadline > 0 {
		rows = append(rows, row{"gets answered", percent, 100 * answered / max(answered+failed, 1)})
	}
	return rows
}

// reading is what a member has counted since it started: the RPCs, unary and streams, and its CPU time in seconds.
type reading struct{ rpcs, cpu float64 }

// read reads the metrics of a member.
func read(ctx context.Context, member *lab.Member) (reading, error) {
	metrics, err := scrape.Read(ctx, scrape.Client, member.DirectEndpoint())
	if err != nil {
		return reading{}, fmt.Errorf("read %s: %w", member.Name(), err)
	}
	return readingOf(metrics)
}

func readingOf(metrics scrape.Metrics) (reading, error) {
	const rpcs, cpu = "grpc_server_started_total", "process_cpu_seconds_total"
	for _, name := range []string{rpcs, cpu} {
		if metrics[name] == nil {
			return reading{}, fmt.Errorf("metrics: %s is missing", name)
		}
	}
	return reading{metrics.Sum(rpcs), metrics.Sum(cpu)}, nil
}

// readLive reads the metrics of the members that run and are not frozen, by their names.
func readLive(ctx context.Context, members []*lab.Member) (map[string]reading, error) {
	all := make(map[string]reading)
	for _, m := range members {
		if !m.Alive() || m.Stopped() {
			continue
		}
		r, err := read(ctx, m)
		if err != nil {
			return nil, err
		}
		all[m.Name()] = r
	}
	return all, nil
}

// countedSince returns what the live members have counted since they were read before, all together. A
// member that was killed or frozen meanwhile does not count.
func countedSince(ctx context.Context, members []*lab.Member, before map[string]reading) (sum reading, err error) {
	now, err := readLive(ctx, members)
	for name, r := range now {
		sum.rpcs += r.rpcs - before[name].rpcs
		sum.cpu += r.cpu - before[name].cpu
	}
	return sum, err
}

// reached returns how many connections have reached a member over the links since they were made.
func reached(links []*link.Link) float64 {
	var sum float64
	for _, l := range links {
		stats := l.Stats()
		sum += float64(stats.Accepted) - float64(stats.Refused)
	}
	return sum
}
