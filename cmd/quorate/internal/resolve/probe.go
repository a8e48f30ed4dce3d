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

// Probes keeps asking endpoints how they are.
type Probes struct {
	prober  health.Prober
	creds   credentials.TransportCredentials
	every   time.Duration
	changed func(health.Change)

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	asked   map[string]context.CancelFunc // by name
}

// NewProbes returns Probes of no endpoint. They call changed with what they learn, until
// Close, from a goroutine for each endpoint.
func NewProbes(prober health.Prober, creds credentials.TransportCredentials, every time.Duration, changed func(health.Change)) *Probes {
	p := &Probes{prober: prober, creds: creds, every: every, changed: changed, asked: map[string]context.CancelFunc{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Close ends all probes.
func (p *Probes) Close() {
	p.stop()
	p.running.Wait()
}

// Ask has these endpoints asked from now on, and no others. It is called by one goroutine.
func (p *Probes) Ask(eps []resolver.Endpoint) {
	wanted := map[string]bool{}
	for _, ep := range eps {
		id := name(ep)
		wanted[id] = true
		if p.asked[id] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(p.ctx)
		p.asked[id] = cancel
		p.running.Go(func() { p.watch(ctx, id, ep) })
	}
	for id, cancel := range p.asked {
		if !wanted[id] {
			cancel()
			delete(p.asked, id)
		}
	}
}

// watch asks an endpoint until ctx ends.
func (p *Probes) watch(ctx context.Context, id string, ep resolver.Endpoint) {
	a := &endpointProber{name: id, prober: p.prober, changed: p.changed}
	var err error
	if a.conn, err = p.connect(ep); err != nil {
		a.note(health.Evidence{Kind: health.ConnectFailed, Err: err})
		return
	}
	defer func() { _ = a.conn.Close() }()
	for ctx.Err() == nil {
		a.ask(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(p.every):
		}
	}
}

// connect returns a channel to one endpoint, which is dialed again as often as it is asked.
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

// endpointProber probes one endpoint.
type endpointProber struct {
	name    string
	prober  health.Prober
	conn    *grpc.ClientConn
	changed func(health.Change)
	record  health.Record
	misses  int // probes in a row that showed neither service nor why there is none
}

// note records evidence, and reports a change of the state.
func (a *endpointProber) note(ev health.Evidence) {
	ev.At = time.Now()
	from := a.record.State
	a.record = a.record.Next(ev)
	if a.record.State != from {
		a.changed(health.Change{Endpoint: a.name, From: from, To: a.record.State, Evidence: ev})
	}
}

// ask probes once, and records the evidence or its absence.
func (a *endpointProber) ask(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answered := false
	a.prober.Probe(limited, a.conn, func(r health.Report) {
		answered = true
		if r.Kind == health.Answered {
			a.missed(health.Evidence{Kind: health.Stalled, Err: r.Err, Detail: "alive, and does not show that it serves"})
			return
		}
		a.misses = 0
		a.note(health.Evidence{Kind: r.Kind, Err: r.Err, Detail: r.Detail})
	})
	switch {
	case ctx.Err() != nil || answered:
	case a.conn.GetState() == connectivity.TransientFailure:
		a.misses = 0
		if _, err := healthpb.NewHealthClient(a.conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil { // it is not sent
			a.note(health.Evidence{Kind: health.ConnectFailed, Err: errors.New(status.Convert(err).Message())})
		}
	default:
		a.missed(health.Evidence{Kind: health.Unresponsive, Detail: fmt.Sprintf("no answer for %v", probeTimeout)})
	}
}

// missed notes that a probe showed no service: a suspicion at first, and then the verdict.
func (a *endpointProber) missed(verdict health.Evidence) {
	a.misses++
	if a.misses < missesToVerdict {
		verdict.Kind = health.Suspicious
	}
	a.note(verdict)
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
