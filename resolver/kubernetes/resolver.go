package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/resolver/internal/lastgood"
	"github.com/quorate/quorate/resolver/internal/news"
)

// channelResolver gives one channel what the feed of its service knows.
type channelResolver struct {
	builder     *builder
	feed        *feed
	destination destination
	cc          resolver.ClientConn
	cancel      context.CancelFunc
	done        chan struct{}
	once        sync.Once

	// What follows belongs to run.
	guard    lastgood.Guard[resolver.Endpoint]
	stale    bool                // the guard has seen no list but an old one
	last     []resolver.Endpoint // what the channel accepted
	listed   bool                // last is something, and be it empty
	reported string              // the text of the last error that the channel was told
	logged   resolution          // what grpc's log has been told about
	pauses   backoff             // after what the channel did not accept
}

func startResolver(b *builder, d destination, cc resolver.ClientConn) *channelResolver {
	ctx, cancel := context.WithCancel(context.Background())
	r := &channelResolver{
		builder: b, feed: b.feeds.Acquire(d.service), destination: d, cc: cc,
		cancel: cancel, done: make(chan struct{}),
		guard: lastgood.Guard[resolver.Endpoint]{Key: firstAddress, Delay: b.removal},
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
	r.once.Do(func() { r.builder.feeds.Release(r.destination.service) })
	if r.feed.ctx.Err() != nil {
		<-r.feed.done
	}
}

func (r *channelResolver) run(ctx context.Context) {
	defer close(r.done)
	for ctx.Err() == nil {
		v, changed := r.feed.look()
		began := time.Now()
		accepted, again := r.give(v)
		// A list of a hundred thousand endpoints takes a tenth of a second. When changes come
		// all the time, no more than half of it is spent on them.
		wait(ctx, min(time.Since(began), longestRest), nil)
		if accepted && again.IsZero() {
			wait(ctx, never, changed)
		} else if accepted {
			wait(ctx, time.Until(again), changed)
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
// accept it, and is to be told again; and when it is to be told again although nothing
// changes, the zero time for never.
func (r *channelResolver) give(v view) (accepted bool, again time.Time) {
	if !v.listed {
		r.report(v.err)
		return true, time.Time{}
	}
	now := resolve(v.slices, r.destination, r.builder.here)
	kept := r.keep(v, now.endpoints)
	if len(kept.Endpoints) > 0 {
		now.endpoints = append(now.endpoints, kept.Endpoints...)
		now.empty = nil
		now.gone = fmt.Errorf("kubernetes: most endpoints of %v are gone at once; they stay in use for %v", r.destination.service, r.builder.removal)
	}
	r.log(now)
	accepted = r.publish(now)
	r.report(complaint(now, v.err))
	return accepted, kept.Due
}

// keep returns the endpoints that stay although they are gone.
func (r *channelResolver) keep(v view, endpoints []resolver.Endpoint) lastgood.Kept[resolver.Endpoint] {
	now := time.Now()
	if v.err != nil {
		r.guard.Suspend(now)
	}
	if r.stale && !v.stale { // much may have changed meanwhile
		r.guard = lastgood.Guard[resolver.Endpoint]{Key: firstAddress, Delay: r.builder.removal}
	}
	r.stale = v.stale
	kept := r.guard.Update(now, endpoints, 0)
	slices.SortFunc(kept.Endpoints, func(a, b resolver.Endpoint) int { return cmp.Compare(firstAddress(a), firstAddress(b)) })
	return kept
}

func firstAddress(e resolver.Endpoint) string { return e.Addresses[0].Addr }

// publish gives the channel a list that differs from the last one.
func (r *channelResolver) publish(now resolution) (accepted bool) {
	if r.listed && news.Equal(r.last, now.endpoints) {
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
	case now.gone != nil && outdated == nil:
		return now.gone
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
	if now.gone != nil && r.logged.gone == nil {
		logger.Warning(now.gone)
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
