package resolver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/grpclog"
	gresolver "google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/internal/registry"
	"github.com/quorate/quorate/internal/feed"
	"github.com/quorate/quorate/internal/lastgood"
)

const (
	// scheme is the scheme of the targets.
	scheme = "etcd"

	// maxListAge is how long the last list of a service is kept after its last channel closed or
	// went idle: long enough for channels that go idle after half an hour, as they do by default.
	maxListAge = time.Hour

	defaultMassRemovalDelay = 15 * time.Second
)

// Config configures a resolver. The zero value is suitable for most programs.
type Config struct {
	// ReportAfter is how long etcd may be unreachable before that is reported to the channel and
	// gRPC's log. The default, 1 s, is longer than an election in a healthy network or a
	// reconnection, which are not reported. It is short enough that calls with deadlines of
	// seconds, made before the first list, fail with the reason instead of DeadlineExceeded.
	ReportAfter time.Duration

	// MassRemovalDelay is how long endpoints are kept if so many disappear at once that fewer
	// than half remain: for example when servers lose contact with etcd, but not with their
	// callers. Time while etcd is unreachable does not count. New endpoints are used at once.
	// Default 15 s, as in resolver/dns; negative: no delay.
	MassRemovalDelay time.Duration

	// Decode returns the address and the metadata of a value, for keys in another format than that of package endpoints.
	// A value for which it fails is skipped, as an invalid one is. It must not block.
	Decode func(value []byte) (address string, metadata any, err error)
}

// NewBuilder returns a resolver builder for targets with the scheme "etcd", for
// grpc.WithResolvers. The client must stay open for as long as channels use it.
// It fails if the client is nil.
//
// It is New with a random order of endpoints for each channel, and without a delay of removals.
func NewBuilder(client *clientv3.Client) (gresolver.Builder, error) {
	b, err := New(client, Config{MassRemovalDelay: -1})
	if err != nil {
		return nil, err
	}
	return spreading{b}, nil
}

// New returns a resolver builder for targets with the scheme "etcd", for grpc.WithResolvers. The
// client must stay open for as long as channels use it. The error names the invalid field of the
// configuration, or what the client lacks.
//
// All channels of a builder to one service share its endpoints. A channel that opens or
// leaves idle mode while etcd is unreachable starts with the last list, which is kept for
// an hour after the last channel.
//
// Build starts to follow the endpoints of a target and does not block. Its error has
// codes.InvalidArgument if the target names no service.
func New(client *clientv3.Client, cfg Config) (gresolver.Builder, error) {
	switch {
	case client == nil:
		return nil, errors.New("etcd: the client is nil; give one that clientv3.New returned")
	case client.KV == nil || client.Watcher == nil:
		return nil, errors.New("etcd: the client has no KV or Watcher service; give one that clientv3.New returned")
	case cfg.ReportAfter < 0:
		return nil, fmt.Errorf("etcd: ReportAfter is %v: it cannot be negative; 0 means 1s", cfg.ReportAfter)
	}
	cfg.MassRemovalDelay = cmp.Or(cfg.MassRemovalDelay, defaultMassRemovalDelay)
	return builder{lastgood.NewRegistry(maxListAge, func(service string, last []gresolver.Endpoint, _ bool) *source {
		return startSource(client, cfg, service, last)
	})}, nil
}

// builder has one source for each service that channels use.
type builder struct {
	sources *lastgood.Registry[string, *source, []gresolver.Endpoint]
}

func (builder) Scheme() string { return scheme }

func (b builder) Build(target gresolver.Target, cc gresolver.ClientConn, _ gresolver.BuildOptions) (gresolver.Resolver, error) {
	service := target.Endpoint()
	if service == "" {
		return nil, status.Errorf(codes.InvalidArgument,
			"etcd: the target %q names no service; it has to have the form etcd:///service", target.URL.Redacted())
	}
	return b.sources.Acquire(service).Resolve(cc, nil, func() { b.sources.Release(service) }), nil
}

// spreading is a builder whose channels have the endpoints in a random order.
type spreading struct{ gresolver.Builder }

// Build starts to follow the endpoints of a target and does not block. Its error has
// codes.InvalidArgument if the target names no service.
func (b spreading) Build(target gresolver.Target, cc gresolver.ClientConn, opts gresolver.BuildOptions) (gresolver.Resolver, error) {
	return b.Builder.Build(target, spread{cc, maphash.MakeSeed()}, opts)
}

// spread passes endpoints to a channel in a random order that is fixed for the channel, so
// that channels which use the first endpoint are spread over all endpoints.
type spread struct {
	gresolver.ClientConn
	order maphash.Seed
}

// UpdateState sorts the endpoints and passes the state on.
func (s spread) UpdateState(state gresolver.State) error {
	state.Endpoints = slices.SortedFunc(slices.Values(state.Endpoints), func(a, b gresolver.Endpoint) int {
		return cmp.Compare(maphash.String(s.order, Key(a)), maphash.String(s.order, Key(b)))
	})
	return s.ClientConn.UpdateState(state)
}

var logger = grpclog.Component("quorate-etcd")

// staleAfter is how long channels that open or leave idle mode wait for etcd before they receive
// the last list of the service.
const staleAfter = 300 * time.Millisecond

// source follows one service, for all its channels.
type source struct {
	*feed.Feed
	service string
	log     *zap.Logger
	cancel  context.CancelFunc
	staleAt time.Time // when last is used although etcd has not answered

	mu      sync.Mutex
	listing listing
	listed  bool // etcd has sent the list
	guard   lastgood.Guard[gresolver.Endpoint]
	last    []gresolver.Endpoint // as published, or of the last source
	problem string               // as published
	lost    string               // the problem since contact with etcd is lost, "" while it is not
	lostAt  time.Time
}

// startSource starts a source with the list of the last one.
func startSource(client *clientv3.Client, cfg Config, service string, last []gresolver.Endpoint) *source {
	now := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	s := &source{
		service: service, log: client.GetLogger(), cancel: cancel, staleAt: now.Add(staleAfter), last: last,
		listing: listing{keys: map[string]int{}}, guard: lastgood.Guard[gresolver.Endpoint]{Key: address, Delay: cfg.MassRemovalDelay},
	}
	s.guard.Update(now, last, 0)
	s.guard.Outdate()
	s.Feed = feed.New(&s.mu, s.stateLocked)
	follower := registry.NewFollower(client, service, cfg.ReportAfter)
	if cfg.Decode != nil {
		follower.Decode = func(value []byte) (e registry.Endpoint, err error) {
			e.Addr, e.Metadata, err = cfg.Decode(value)
			return e, err
		}
	}
	go func() {
		if err := follower.Follow(ctx, s); errors.Is(err, registry.ErrClientClosed) {
			s.Lost(fmt.Errorf("%w; the resolver needs it for as long as there are channels", err))
		}
	}()
	return s
}

// Stop implements lastgood.Source.
func (s *source) Stop() (last []gresolver.Endpoint, ok bool) {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, len(s.last) > 0
}

// Changed implements registry.Observer.
func (s *source) Changed(changes []registry.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := !s.listed
	s.listed = true
	for _, c := range changes {
		if !c.Deleted && c.Endpoint.Addr == "" {
			s.log.Warn("a registered endpoint has no address and is ignored", zap.String("key", c.Key))
			continue
		}
		changed = s.listing.apply(c) || changed
	}
	if changed {
		s.ChangedLocked()
	}
}

// Lost implements registry.Observer.
func (s *source) Lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == "" {
		s.lostAt = time.Now()
		logger.Warningf("service %q: %v", s.service, err)
	}
	s.lost = s.outdatedLocked(err.Error())
	s.ChangedLocked()
}

// Regained implements registry.Observer.
func (s *source) Regained() {
	s.mu.Lock()
	defer s.mu.Unlock()
	logger.Infof("service %q: contact with etcd is restored after %v", s.service, time.Since(s.lostAt).Round(time.Millisecond))
	s.lost = ""
	s.ChangedLocked()
}

// stateLocked returns the state of the channels.
func (s *source) stateLocked() feed.State {
	now := time.Now()
	var kept lastgood.Kept[gresolver.Endpoint]
	switch {
	case s.listed:
		kept = s.listLocked(now)
	case len(s.last) > 0 && s.lost == "" && now.Before(s.staleAt):
		return feed.State{Due: s.staleAt}
	}
	before := s.problem
	s.problem = s.problemLocked(len(kept.Endpoints))
	if before == "" && s.problem != "" && s.lost == "" && len(s.last) > 0 {
		logger.Warning(s.problem)
	}
	return feed.State{Endpoints: s.last, Listed: s.listed || len(s.last) > 0, Problem: s.problem, Due: kept.Due}
}

// listLocked updates the last list, and returns the endpoints that the guard keeps in it.
func (s *source) listLocked(now time.Time) lastgood.Kept[gresolver.Endpoint] {
	s.last = s.listing.endpoints()
	if s.lost != "" {
		s.guard.Suspend(now)
	}
	kept := s.guard.Update(now, s.last, 0)
	if len(kept.Endpoints) > 0 {
		s.last = append(slices.Clone(s.last), kept.Endpoints...)
		slices.SortFunc(s.last, func(a, b gresolver.Endpoint) int { return cmp.Compare(Key(a), Key(b)) })
	}
	return kept
}

// problemLocked returns why there are no endpoints, or why they may be out of date.
func (s *source) problemLocked(kept int) string {
	n := len(s.last)
	switch {
	case s.lost != "":
		return s.lost
	case !s.listed && n > 0:
		return s.outdatedLocked("etcd has not answered yet")
	case kept > 0:
		return s.describe("%d of %d endpoints are gone at once, and stay in use for %v", kept, n, s.guard.Delay)
	case s.listed && n == 0:
		return s.describe("no endpoint is registered")
	}
	return ""
}

// outdatedLocked returns the problem of a list that may be out of date.
func (s *source) outdatedLocked(reason string) string {
	if len(s.last) == 0 {
		return s.describe("%s", reason)
	}
	return s.describe("%s; the last list, of %d, stays in use", reason, len(s.last))
}

func (s *source) describe(format string, args ...any) string {
	return fmt.Sprintf("etcd: service %q: ", s.service) + fmt.Sprintf(format, args...)
}

// The members of a metadata object that the resolver interprets.
const (
	weightMember    = "weight"
	addressesMember = "additionalAddresses"
)

type (
	keyKey      struct{}
	metadataKey struct{}
)

// Key returns the etcd key of an endpoint resolved by this package, "" for others.
func Key(ep gresolver.Endpoint) string {
	key, _ := ep.Attributes.Value(keyKey{}).(string)
	return key
}

// Metadata returns the metadata of an endpoint that was resolved by this package, as
// encoding/json decodes into an any: numbers as float64, objects as map[string]any. It is nil for
// others, and for an endpoint without metadata. The caller must not modify it.
func Metadata(ep gresolver.Endpoint) any {
	md, _ := ep.Attributes.Value(metadataKey{}).(metadata)
	return md.value
}

// metadata is an attribute. Unlike its value it is always comparable.
type metadata struct{ value any }

// Equal is used by attributes.Attributes.
func (m metadata) Equal(other any) bool {
	o, ok := other.(metadata)
	return ok && reflect.DeepEqual(m.value, o.value)
}

// listing has the registered endpoints, sorted by key. The cost of a change does not depend on
// their number, except for moving pointers.
type listing struct {
	entries []*entry
	keys    map[string]int // of each address, usually one
}

type entry struct {
	key      string
	revision int64
	endpoint gresolver.Endpoint
}

// apply reports whether a change affects the endpoints.
func (l *listing) apply(c registry.Change) bool {
	i, found := slices.BinarySearchFunc(l.entries, c.Key, func(e *entry, key string) int { return cmp.Compare(e.key, key) })
	var before []gresolver.Endpoint
	if found {
		before = append(before, l.entries[i].endpoint)
		if at := address(before[0]); l.keys[at] > 1 {
			l.keys[at]--
		} else {
			delete(l.keys, at)
		}
		l.entries = slices.Delete(l.entries, i, i+1)
	}
	if c.Deleted {
		return found
	}
	e := &entry{key: c.Key, revision: c.Revision, endpoint: endpointOf(c)}
	l.entries = slices.Insert(l.entries, i, e)
	at := address(e.endpoint)
	l.keys[at]++
	return !feed.Equal(before, []gresolver.Endpoint{e.endpoint}) || l.keys[at] > 1
}

// endpoints returns one endpoint for each first address, from the key that was written last,
// sorted by key.
func (l *listing) endpoints() []gresolver.Endpoint {
	newest := make(map[string]*entry, len(l.keys))
	for _, e := range l.entries {
		if at := address(e.endpoint); newest[at] == nil || newest[at].revision <= e.revision {
			newest[at] = e
		}
	}
	all := make([]gresolver.Endpoint, 0, len(newest))
	for _, e := range l.entries {
		if newest[address(e.endpoint)] == e {
			all = append(all, e.endpoint)
		}
	}
	return all
}

// address identifies an endpoint.
func address(e gresolver.Endpoint) string { return e.Addresses[0].Addr }

func endpointOf(c registry.Change) gresolver.Endpoint {
	ep := gresolver.Endpoint{Addresses: []gresolver.Address{{Addr: c.Endpoint.Addr}}}
	ep.Attributes = ep.Attributes.WithValue(keyKey{}, c.Key)
	if c.Endpoint.Metadata != nil {
		ep.Attributes = ep.Attributes.WithValue(metadataKey{}, metadata{c.Endpoint.Metadata})
	}
	object, _ := c.Endpoint.Metadata.(map[string]any)
	for _, addr := range additionalAddresses(object) {
		if a := (gresolver.Address{Addr: addr}); !slices.ContainsFunc(ep.Addresses, a.Equal) {
			ep.Addresses = append(ep.Addresses, a)
		}
	}
	if weight, ok := weightIn(object); ok {
		ep = balancer.SetWeight(ep, weight)
	}
	return ep
}

// weightIn returns the weight in a metadata object, if there is one.
func weightIn(object map[string]any) (uint32, bool) {
	weight, ok := object[weightMember].(float64)
	if !ok || weight < 1 || weight > math.MaxUint32 || weight != math.Trunc(weight) {
		return 0, false
	}
	return uint32(weight), true
}

// additionalAddresses returns the further addresses in a metadata object, none if the member is
// invalid.
func additionalAddresses(object map[string]any) []string {
	all, _ := object[addressesMember].([]any)
	addrs := make([]string, 0, len(all))
	for _, a := range all {
		addr, ok := a.(string)
		if !ok || addr == "" {
			return nil
		}
		addrs = append(addrs, addr)
	}
	return addrs
}
