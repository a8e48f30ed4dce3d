package resolver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/grpclog"
	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/internal/registry"
	"github.com/quorate/quorate/internal/feed"
	"github.com/quorate/quorate/internal/lastgood"
)

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
