package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/resolver/internal/feed"
)

// channelResolver passes the list of its service's source to one channel.
type channelResolver struct {
	builder     *builder
	source      *source
	destination serviceTarget
	cc          resolver.ClientConn
	cancel      context.CancelFunc
	done        chan struct{}
	once        sync.Once

	// The fields below belong to run.
	last     []resolver.Endpoint // what the channel accepted
	listed   bool                // the channel accepted a list, which may be empty
	reported string              // the text of the last error that was reported
	pauses   backoff             // after lists that the channel refused
}

func startResolver(b *builder, d serviceTarget, cc resolver.ClientConn) *channelResolver {
	ctx, cancel := context.WithCancel(context.Background())
	r := &channelResolver{
		builder: b, source: b.sources.Acquire(d.service), destination: d, cc: cc,
		cancel: cancel, done: make(chan struct{}),
	}
	go r.run(ctx)
	return r
}

// ResolveNow does nothing: changes are pushed, and a broken watch is resumed anyway.
func (r *channelResolver) ResolveNow(resolver.ResolveNowOptions) {}

// Close returns when the goroutines of the resolver have ended.
func (r *channelResolver) Close() {
	r.cancel()
	<-r.done
	r.once.Do(func() { r.builder.sources.Release(r.destination.service) })
	if r.source.ctx.Err() != nil {
		<-r.source.done
	}
}

func (r *channelResolver) run(ctx context.Context) {
	defer close(r.done)
	all := r.source.listing(r.builder, r.destination)
	for ctx.Err() == nil {
		l := all.look()
		began := time.Now()
		accepted := r.give(l)
		// A list of 100,000 endpoints takes 0.1 s. Under continuous changes, at most half of the
		// time is spent on lists.
		_ = pause.For(ctx, min(l.took+time.Since(began), maxPause)) // the loop checks ctx
		switch {
		case !accepted:
			_ = pause.Until(ctx, l.changed, max(r.pauses.pause(r.builder.longest), firstPause))
		case l.again.IsZero():
			_ = pause.Until(ctx, l.changed, never)
		default:
			_ = pause.Until(ctx, l.changed, time.Until(l.again))
		}
	}
}

const (
	// maxPause bounds the pause after an update that took the channel long.
	maxPause = time.Second
	never    = math.MaxInt64
)

// give publishes a list to the channel. It returns false if the channel refused it, and give must
// be called again.
func (r *channelResolver) give(l list) (accepted bool) {
	if !l.view.listed {
		r.report(l.view.err)
		return true
	}
	accepted = r.publish(l.resolution)
	r.report(problemOf(l.resolution, l.view.err))
	return accepted
}

// publish passes a list to the channel if it differs from the last one.
func (r *channelResolver) publish(now resolution) (accepted bool) {
	if r.listed && feed.Equal(r.last, now.endpoints) {
		return true
	}
	err := r.cc.UpdateState(resolver.State{Endpoints: now.endpoints})
	r.reported = "" // a new list replaces the error
	// Every policy refuses an empty list.
	r.listed = err == nil || now.empty != nil
	if !r.listed {
		return false
	}
	r.last = now.endpoints
	r.pauses.reset()
	return true
}

// problemOf returns the error to report with a list, or nil.
func problemOf(now resolution, outdated error) error {
	switch {
	case now.empty != nil && outdated != nil:
		return fmt.Errorf("%w (last known; since then: %w)", now.empty, outdated)
	case now.empty != nil:
		return now.empty
	case now.gone != nil && outdated == nil:
		return now.gone
	case outdated != nil:
		return fmt.Errorf("the last known endpoints stay in use: %w", outdated)
	}
	return nil
}

// report reports an error to the channel once, with its text only: a wrapped gRPC status,
// for example from the user's dialer, would fail calls that wait for ready.
func (r *channelResolver) report(err error) {
	switch {
	case err == nil:
		r.reported = ""
	case err.Error() != r.reported:
		r.reported = err.Error()
		r.cc.ReportError(errors.New(r.reported))
	}
}
