package resolve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/etcdprobe"
	"github.com/quorate/quorate/internal/pause"
)

const (
	// DefaultProbeEvery is the pause between two probes of an endpoint.
	DefaultProbeEvery = time.Second
	// probeTimeout is how long a probe waits for an answer.
	probeTimeout = time.Second
	// missesToVerdict is how many probes in a row that show no service make an endpoint Dead,
	// or Lagging if it is alive. One can be lost to a pause of either side.
	missesToVerdict = 2
)

// Probes probes endpoints again and again.
type Probes struct {
	prober  health.Prober
	creds   credentials.TransportCredentials
	every   time.Duration
	changed func(health.Change)

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	ends    map[string]context.CancelFunc // by the name of the endpoint
}

// NewProbes returns Probes of no endpoint. They call changed with each change of an endpoint's state, until
// Close, from a goroutine for each endpoint.
func NewProbes(prober health.Prober, creds credentials.TransportCredentials, every time.Duration, changed func(health.Change)) *Probes {
	p := &Probes{prober: prober, creds: creds, every: every, changed: changed, ends: map[string]context.CancelFunc{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Close ends all probes.
func (p *Probes) Close() {
	p.stop()
	p.running.Wait()
}

// Set has these endpoints probed from now on, and no others. It must not be called concurrently.
func (p *Probes) Set(eps []resolver.Endpoint) {
	wanted := map[string]bool{}
	for _, ep := range eps {
		id := name(ep)
		wanted[id] = true
		if p.ends[id] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(p.ctx)
		p.ends[id] = cancel
		p.running.Go(func() { p.probe(ctx, id, ep) })
	}
	for id, cancel := range p.ends {
		if !wanted[id] {
			cancel()
			delete(p.ends, id)
		}
	}
}

// probe probes an endpoint until ctx ends.
func (p *Probes) probe(ctx context.Context, id string, ep resolver.Endpoint) {
	e := &probed{Probes: p, name: id}
	var err error
	if e.conn, err = p.connect(ep); err != nil {
		e.note(health.Evidence{Kind: health.ConnectFailed, Err: err})
		return
	}
	defer func() { _ = e.conn.Close() }()
	for ctx.Err() == nil {
		e.once(ctx)
		_ = pause.For(ctx, p.every)
	}
}

// connect returns a channel to one endpoint, which dials it again after the pause between two probes.
// The server's name is the endpoint's first address, unless the resolver gave one.
func (p *Probes) connect(ep resolver.Endpoint) (*grpc.ClientConn, error) {
	target := manual.NewBuilderWithScheme("endpoint")
	target.InitialState(resolver.State{Endpoints: []resolver.Endpoint{ep}})
	return grpc.NewClient("endpoint:///"+ep.Addresses[0].Addr, grpc.WithResolvers(target),
		grpc.WithTransportCredentials(p.creds), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: p.every, Multiplier: 1, MaxDelay: p.every}, MinConnectTimeout: probeTimeout,
		}))
}

// probed is an endpoint that is probed.
type probed struct {
	*Probes
	name   string
	conn   *grpc.ClientConn
	record health.Record
	misses int // probes in a row that showed neither service nor why there is none
}

// note records evidence, and reports a change of the state.
func (e *probed) note(ev health.Evidence) {
	ev.At = time.Now()
	from := e.record.State
	e.record = e.record.Next(ev)
	if e.record.State != from {
		e.changed(health.Change{Endpoint: e.name, From: from, To: e.record.State, Evidence: ev})
	}
}

// once probes the endpoint once, and records the evidence or its absence.
func (e *probed) once(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answered := false
	e.prober.Probe(limited, e.conn, func(r health.Report) {
		answered = true
		if r.Kind == health.Answered {
			e.missed(health.Evidence{Kind: health.Stalled, Err: r.Err, Detail: "alive, and does not show that it serves"})
			return
		}
		e.misses = 0
		e.note(health.Evidence{Kind: r.Kind, Err: r.Err, Detail: r.Detail})
	})
	switch {
	case ctx.Err() != nil || answered:
	case e.conn.GetState() == connectivity.TransientFailure:
		e.misses = 0
		// gRPC fails this call with the error of the connection, unless that is back meanwhile.
		bounded, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		if _, err := healthpb.NewHealthClient(e.conn).Check(bounded, &healthpb.HealthCheckRequest{}); err != nil {
			e.note(health.Evidence{Kind: health.ConnectFailed, Err: errors.New(status.Convert(err).Message())})
		}
	default:
		e.missed(health.Evidence{Kind: health.Unresponsive, Detail: fmt.Sprintf("no answer for %v", probeTimeout)})
	}
}

// missed notes that a probe showed no service: a suspicion at first, and then the verdict.
func (e *probed) missed(verdict health.Evidence) {
	e.misses++
	if e.misses < missesToVerdict {
		verdict.Kind = health.Suspicious
	}
	e.note(verdict)
}

// Member is a [health.Prober] of etcd members: it asks for service, and for a sign of life in
// case there is none. A member whose health service reports NOT_SERVING is Refusing, whatever it
// still serves.
type Member struct{}

var _ health.Prober = Member{}

// Probe makes one report at most: that the member refuses, else its service, else that it is alive.
func (Member) Probe(ctx context.Context, conn grpc.ClientConnInterface, report func(health.Report)) {
	var service, life *health.Report
	var calls sync.WaitGroup
	calls.Go(func() { etcdprobe.Service{}.Probe(ctx, conn, func(r health.Report) { service = &r }) })
	calls.Go(func() { etcdprobe.Liveness{}.Probe(ctx, conn, func(r health.Report) { life = &r }) })
	calls.Wait()
	switch {
	case life != nil && (service == nil || life.Kind == health.Refusing):
		report(*life)
	case service != nil:
		report(*service)
	}
}
