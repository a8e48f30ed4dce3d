package balancer

import (
	"context"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// flight is an attempt of a call, from its pick to its end.
type flight struct {
	ep    *Endpoint
	line  *line
	call  Call
	a     *Attempt
	gauge *gauge
	start time.Time
	// deadline is the call's, zero if it has none.
	deadline time.Time

	// Guarded by the lock of the endpoint's traffic:
	next, prev *flight
	told       bool      // its Observer, that it is overdue
	doubt      time.Time // when its silence becomes suspicious
}

// begin takes an attempt that was picked under way.
func (p *policy) begin(ctx context.Context, l *line, call Call, a *Attempt) *flight {
	ep := l.ep
	f := &flight{ep: ep, line: l, call: call, a: a, gauge: ep.gauges.get(call.Class, &p.classes), start: time.Now()}
	f.deadline, _ = ctx.Deadline()
	if call.Lane == Calls {
		ep.inFlight.Add(1)
		ep.depart(f)
	}
	return f
}

// end is gRPC's notice that the attempt is over. A zero DoneInfo means that the
// connection went away before anything was sent.
func (f *flight) end(info balancer.DoneInfo) {
	ep := f.ep
	answered := info.BytesSent && (info.Err == nil || (info.BytesReceived && !endedHere(info.Err)))
	if f.call.Lane == Calls {
		ep.inFlight.Add(-1)
		ep.land(f, answered)
	}
	if f.a.Observer != nil {
		f.a.Observer.Ended(info.BytesSent)
	}
	now := time.Now()
	took := now.Sub(f.start)
	if answered {
		f.answered(now, took, info.Err)
	}
	p := ep.policy
	if p.options().Prober == nil && needsProbes(ep.State()) && (answered || !ep.busy()) {
		// Nobody can be asked. It was silent for as long as that lasted.
		p.note(ep, health.Evidence{Kind: health.Served, At: now, Detail: "nothing waits for an answer"})
	}
	ep.retire()
	if p.learner != nil && (info.BytesSent || info.Err != nil) {
		p.learner.Done(ep, Result{
			Call: f.call, Took: took, Err: info.Err, Answered: answered,
			Failed: info.Err != nil && p.options().Fault(info.Err),
		})
	}
}

// endedHere reports whether an error may be that of a call which this side gave up. A
// server may have begun to answer it.
func endedHere(err error) bool {
	code := status.Code(err)
	return code == codes.Canceled || code == codes.DeadlineExceeded
}

// expired reports whether it is the end of the call's own time that the server speaks of
// where it says that it waited for others in vain: servers count the deadlines of their
// callers down. Patient callers, or probes, will see whether it works.
func (f *flight) expired(kind health.Kind, now time.Time) bool {
	return kind == health.Stalled && !f.deadline.IsZero() && !now.Before(f.deadline)
}

// answered takes in what the end of a call shows of its endpoint.
func (f *flight) answered(now time.Time, took time.Duration, err error) {
	ep, p := f.ep, f.ep.policy
	f.line.hear(now)
	if err != nil {
		if kind, ok := p.options().Judge(err); ok && !f.expired(kind, now) {
			p.note(ep, health.Evidence{Kind: kind, At: now, Err: err, Detail: f.call.Method})
			return
		}
		ep.entry.Failed(err, now)
	} else if f.call.Need == Full {
		ep.served.Store(now.UnixNano())
	}
	if f.call.Lane == Calls {
		f.gauge.answered(now, took)
		ep.took.observe(took)
	}
	if ep.State() == health.Unknown {
		p.note(ep, health.Evidence{Kind: health.Answered, At: now})
	}
}
