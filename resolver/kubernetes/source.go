package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/resolver"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/quorate/quorate/internal/lastgood"
	"github.com/quorate/quorate/internal/pause"
)

var logger = grpclog.Component("kubernetes-resolver")

// view is the state of a source. Its slices are not modified once they are published.
type view struct {
	listed bool                         // slices is complete, or was when err began
	stale  bool                         // slices is from an earlier source
	slices []*discoveryv1.EndpointSlice // by name
	err    error                        // why slices may be out of date, nil if they are not
}

// source follows the slices of one service for all channels that use it, like a Reflector of
// client-go.
type source struct {
	service serviceKey
	cfg     Config
	links   *links
	timing  timing

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	listFirst atomic.Bool // the server does not stream lists

	last    memory    // the memory of the last source of the service
	staleAt time.Time // when last is used although the API server has not answered

	mu       sync.Mutex
	view     view
	listings map[serviceTarget]*listing // the listings of the destinations of the channels

	// The fields below belong to run.
	store  *store
	seen   string // the latest version that expired, "" if none has
	link   *link
	pauses backoff // after attempts without a list or watch
	breaks backoff // after short watches
	synced bool    // the current attempt has a list or watch
	steady bool    // the watch lasted for timing.steady
	outage outage
}

// outage is a time in which attempts fail.
type outage struct {
	since  time.Time // zero: there is none
	logged bool
}

// memory is the state that the next source of a service starts with.
type memory struct {
	slices []*discoveryv1.EndpointSlice
	// used has the endpoints that channels used for each destination, with those that the guard
	// kept.
	used      map[serviceTarget][]resolver.Endpoint
	listFirst bool
}

// staleAfter is how long channels that open or leave idle mode wait for the API server before they
// receive the last list of the service.
const staleAfter = 300 * time.Millisecond

var errUnanswered = errors.New("kubernetes: the API server has not answered yet")

func newSource(service serviceKey, cfg Config, l *links, last memory) *source {
	ctx, cancel := context.WithCancel(context.Background())
	s := &source{
		service: service, cfg: cfg, links: l, timing: l.timing,
		ctx: ctx, cancel: cancel, done: make(chan struct{}),
		last: last, staleAt: time.Now().Add(staleAfter),
		listings: make(map[serviceTarget]*listing), store: newStore(),
	}
	s.listFirst.Store(last.listFirst)
	return s
}

// viewLocked returns the view: that of the last source if the API server does not answer in time.
// due is when that may change without an event.
func (s *source) viewLocked() (v view, due time.Time) {
	v = s.view
	if v.listed || len(s.last.slices) == 0 {
		return v, time.Time{}
	}
	if v.err == nil {
		if time.Now().Before(s.staleAt) {
			return v, s.staleAt
		}
		v.err = errUnanswered
	}
	return view{listed: true, stale: true, slices: s.last.slices, err: v.err}, time.Time{}
}

// update changes the view.
func (s *source) update(change func(v *view)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.view)
	for _, l := range s.listings {
		l.stale = l.stale || l.users == 0 // without channels, no changes reach the guard
		l.ChangedLocked()
	}
}

// Stop implements lastgood.Source.
func (s *source) Stop() (memory, bool) {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	next := memory{slices: s.last.slices, used: map[serviceTarget][]resolver.Endpoint{}, listFirst: s.listFirst.Load()}
	if s.view.listed {
		next.slices = s.view.slices
	}
	maps.Copy(next.used, s.last.used)
	for d, l := range s.listings {
		if l.used != nil {
			next.used[d] = l.used
		}
	}
	return next, true
}

func (s *source) run(ctx context.Context) {
	defer close(s.done)
	defer s.unlink(false)
	for {
		verb, err := s.listAndWatch(ctx)
		if ctx.Err() != nil {
			return
		}
		if pause.For(ctx, s.delayAfter(verb, err)) != nil {
			return
		}
	}
}

// delayAfter processes the end of an attempt and returns the pause before the next one.
func (s *source) delayAfter(verb string, err error) time.Duration {
	if s.steady {
		s.breaks.reset()
	}
	longest, failed := s.cfg.MaxBackoff, &s.pauses
	if unreachable(err) {
		longest = min(longest, longestUnreachable)
	}
	if s.synced {
		failed = &s.breaks
	}
	delay := failed.pause(longest)
	switch {
	case errors.Is(err, errEnded):
		return delay
	case s.store.resourceVersion != "" && expired(err): // of a watch
		s.expire()
		return delay
	case errors.Is(err, errNoWatchList):
		s.listFirst.Store(true)
		if code(err) == 0 { // nothing refused it: the API server may have too much to do
			return delay
		}
		return 0
	case errors.Is(err, errSilent):
		// This is not a failure yet. The next list has whatever was missed.
		s.expire()
		s.unlink(true)
		return delay
	}
	if verb == "list" && code(err) == http.StatusForbidden {
		s.listFirst.Store(false) // only watch is granted: the server may stream lists now
	}
	if !refused(err) {
		s.unlink(true)
	}
	s.fail(explain(err, verb, s.service))
	return max(delay, retryAfter(err))
}

// expire makes the next attempt list again.
func (s *source) expire() {
	s.seen, s.store.resourceVersion = cmp.Or(s.store.resourceVersion, s.seen), ""
}

// fail publishes why the view may be out of date.
func (s *source) fail(err error) {
	if s.outage.since.IsZero() {
		s.outage.since = time.Now()
	} else if !s.outage.logged {
		// The second failure in a row: a single one is an ordinary restart.
		s.outage.logged = true
		logger.Warningf("%v; attempts continue", err)
	}
	s.update(func(v *view) { v.err = err })
}

// succeed publishes that the view is complete and up to date.
func (s *source) succeed() {
	if s.outage.logged {
		logger.Infof("kubernetes: %v is followed again, after %v", s.service, time.Since(s.outage.since).Round(time.Millisecond))
	}
	s.outage = outage{}
	s.synced = true
	s.pauses.reset()
	s.publish()
}

func (s *source) publish() {
	set := s.store.sorted()
	s.update(func(v *view) { *v = view{listed: true, slices: set} })
}

// unlink releases the link, and retires it if retire is set.
func (s *source) unlink(retire bool) {
	if s.link != nil {
		s.links.release(s.link, retire)
		s.link = nil
	}
}

// maxListAge is how long the last list of a service is kept after its last channel closed or
// went idle: long enough for channels that go idle after half an hour, as they do by default.
const maxListAge = time.Hour

// builder builds resolvers. Those of one service share a source.
type builder struct {
	cfg     Config
	links   *links
	sources *lastgood.Registry[serviceKey, *source, memory]
}

var _ resolver.AuthorityOverrider = (*builder)(nil)

// NewBuilder returns a resolver builder for Kubernetes services, for grpc.WithResolvers. It reads
// configuration and certificates, but does not connect: the first channel does, and the last one
// that closes or becomes idle closes the connection. All channels of a builder share its
// connection, and those to the same service share one watch. The list of a service is kept for an
// hour after its last channel: the next one gets it if the API server does not answer within 0.3 s.
//
// It fails if the configuration is invalid, or if REST is nil and no API server is configured.
func NewBuilder(cfg Config) (resolver.Builder, error) {
	return newBuilder(cfg, currentEnvironment(), defaultTiming())
}

// RegisterInCluster registers a resolver with the zero Config in gRPC, for all channels of the
// program. Call it before the first channel is created. The error is NewBuilder's. For another
// Config, pass the result of NewBuilder to grpc.WithResolvers or resolver.Register.
func RegisterInCluster() error {
	b, err := NewBuilder(Config{})
	if err != nil {
		return err
	}
	resolver.Register(b)
	return nil
}

func newBuilder(cfg Config, env podEnvironment, t timing) (*builder, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg, err := env.complete(cfg.withDefaults())
	if err != nil {
		return nil, err
	}
	l, err := newLinks(cfg.REST, t)
	if err != nil {
		return nil, err
	}
	return &builder{
		cfg: cfg, links: l,
		sources: lastgood.NewRegistry(maxListAge, func(service serviceKey, last memory, _ bool) *source {
			s := newSource(service, cfg, l, last)
			go s.run(s.ctx)
			return s
		}),
	}, nil
}

// Scheme returns the scheme of the targets.
func (b *builder) Scheme() string { return b.cfg.Scheme }

// OverrideAuthority returns the server name for TLS and the :authority header, unless
// grpc.WithAuthority is set: the service's short DNS name, service.namespace.
func (b *builder) OverrideAuthority(t resolver.Target) string {
	d, err := parseTarget(t, b.cfg.Namespace)
	if err != nil {
		return t.Endpoint() // Build returns the error
	}
	return d.authority()
}

// Build starts to resolve a target. It fails only if the target is invalid. Close of the resolver
// returns when its goroutines have ended.
func (b *builder) Build(t resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	d, err := parseTarget(t, b.cfg.Namespace)
	if err != nil {
		return nil, err
	}
	s := b.sources.Acquire(d.service)
	l := s.listing(d)
	return l.Resolve(cc, nil, func() {
		l.leave()
		b.sources.Release(d.service)
		if s.ctx.Err() != nil { // it was the last channel
			<-s.done
		}
	}), nil
}
