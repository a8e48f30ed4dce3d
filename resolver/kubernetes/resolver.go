package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/resolver"
)

// channelResolver gives one channel what the feed of its service knows.
type channelResolver struct {
	builder     *builder
	feed        *feed
	destination destination
	cc          resolver.ClientConn
	cancel      context.CancelFunc
	done        chan struct{}

	// What follows belongs to run.
	last     []resolver.Endpoint // what the channel accepted
	listed   bool                // last is something, and be it empty
	reported string              // the text of the last error that the channel was told
	logged   resolution          // what grpc's log has been told about
	pauses   backoff             // after what the channel did not accept
}

func startResolver(b *builder, d destination, cc resolver.ClientConn) *channelResolver {
	ctx, cancel := context.WithCancel(context.Background())
	r := &channelResolver{
		builder: b, feed: b.follow(d.service), destination: d, cc: cc,
		cancel: cancel, done: make(chan struct{}),
	}
	go r.run(ctx)
	return r
}

// ResolveNow does nothing: changes are pushed, and a watch that is broken is made again
// without being asked.
func (r *channelResolver) ResolveNow(resolver.ResolveNowOptions) {}

// Close ends the resolver, and returns when nothing of it is left.
func (r *channelResolver) Close() {
	r.cancel()
	<-r.done
	r.builder.leave(r.feed)
}

func (r *channelResolver) run(ctx context.Context) {
	defer close(r.done)
	for ctx.Err() == nil {
		v, changed := r.feed.look()
		began := time.Now()
		accepted := r.give(v)
		// A list of a hundred thousand endpoints takes a tenth of a second. When changes come
		// all the time, no more than half of it is spent on them.
		wait(ctx, min(time.Since(began), longestRest), nil)
		if accepted {
			wait(ctx, never, changed)
		} else {
			wait(ctx, max(r.pauses.pause(r.builder.longest), firstPause), changed)
		}
	}
}

const (
	// longestRest bounds the rest after a list that the channel was slow to take.
	longestRest = time.Second
	never       = math.MaxInt64
)

// wait returns after d, with the end of ctx, or when changed is closed.
func wait(ctx context.Context, d time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
	}
}

// give tells the channel what is new in a view. It returns false if the channel did not
// accept it, and is to be told again.
func (r *channelResolver) give(v view) bool {
	if !v.listed {
		r.report(v.err)
		return true
	}
	now := resolve(v.slices, r.destination, r.builder.here)
	r.log(now)
	accepted := r.publish(now)
	r.report(complaint(now, v.err))
	return accepted
}

// publish gives the channel a list that differs from the last one.
func (r *channelResolver) publish(now resolution) (accepted bool) {
	if r.listed && sameEndpoints(r.last, now.endpoints) {
		return true
	}
	err := r.cc.UpdateState(resolver.State{Endpoints: now.endpoints})
	r.reported = "" // a new list takes the place of errors
	// Every policy refuses an empty list.
	r.listed = err == nil || now.empty != nil
	if !r.listed {
		return false
	}
	r.last = now.endpoints
	r.pauses.reset()
	return true
}

// complaint is what the channel has to know about a list, nil if all is well.
func complaint(now resolution, outdated error) error {
	switch {
	case now.empty != nil && outdated != nil:
		return fmt.Errorf("%w (last known; since then: %w)", now.empty, outdated)
	case now.empty != nil:
		return now.empty
	case outdated != nil:
		return fmt.Errorf("the last known endpoints stay in use: %w", outdated)
	}
	return nil
}

// log writes a line when the last endpoint goes, and one when there are some again, because
// grpc's own round_robin does not show calls why it has none; and one about a target that is
// probably wrong.
func (r *channelResolver) log(now resolution) {
	switch {
	case now.empty != nil && r.logged.empty == nil:
		logger.Warning(now.empty)
	case now.empty == nil && r.logged.empty != nil:
		logger.Infof("kubernetes: %v has endpoints", r.destination.service)
	}
	if now.doubt != "" && now.doubt != r.logged.doubt {
		logger.Warningf("kubernetes: %s", now.doubt)
	}
	r.logged = now
}

// report tells the channel an error, once, and nothing but its text: if a status of grpc is
// wrapped in it, as from a dialer of the user's, calls that wait for ready would end.
func (r *channelResolver) report(err error) {
	switch {
	case err == nil:
		r.reported = ""
	case err.Error() != r.reported:
		r.reported = err.Error()
		r.cc.ReportError(errors.New(r.reported))
	}
}
