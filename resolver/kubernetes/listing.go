package kubernetes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/resolver/internal/lastgood"
)

// listing computes the list of one destination from the view of a source, once for all channels.
// They share its guard: a channel that opens while most endpoints are gone gets those that the
// other channels keep.
type listing struct {
	source  *source
	builder *builder
	service serviceTarget

	mu     sync.Mutex
	guard  lastgood.Guard[resolver.Endpoint]
	stale  bool       // the guard has only seen a stale list
	latest list       // the last one that was computed
	logged resolution // the last one that was logged
}

// list is a view with its endpoints. It is not modified once it is computed.
type list struct {
	view view
	resolution
	changed <-chan struct{} // closed when the view is replaced
	again   time.Time       // when the same view has another list; zero: never
	took    time.Duration   // the time to compute it
}

// listing returns the listing of a destination.
func (s *source) listing(b *builder, d serviceTarget) *listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.listings[d]
	if l == nil {
		l = &listing{source: s, builder: b, service: d}
		l.resetLocked()
		if used := s.last.used[d]; len(used) > 0 {
			l.stale = true
			l.guard.Update(time.Now(), used, 0)
		}
		s.listings[d] = l
	}
	return l
}

// used returns what the channels of each destination use, or used the last time.
func (s *source) used() map[serviceTarget][]resolver.Endpoint {
	s.mu.Lock()
	all := maps.Clone(s.listings)
	s.mu.Unlock()
	used := maps.Clone(s.last.used)
	if used == nil {
		used = make(map[serviceTarget][]resolver.Endpoint, len(all))
	}
	for d, l := range all {
		l.mu.Lock()
		if l.latest.view.listed {
			used[d] = l.latest.endpoints
		}
		l.mu.Unlock()
	}
	return used
}

// resetLocked discards the state of the guard.
func (l *listing) resetLocked() {
	l.guard, l.stale = lastgood.Guard[resolver.Endpoint]{Key: firstAddress, Delay: l.builder.removal}, false
}

// look returns the list of the current view.
func (l *listing) look() list {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, changed := l.source.Read()
	due := !l.latest.again.IsZero() && !time.Now().Before(l.latest.again)
	if changed == l.latest.changed && !due {
		return l.latest
	}
	l.latest = list{view: v, changed: changed}
	if v.listed {
		began := time.Now()
		l.latest.resolution, l.latest.again = l.resolveLocked(v)
		l.latest.took = time.Since(began)
		l.logLocked(l.latest.resolution)
	}
	return l.latest
}

// resolveLocked returns the resolution of a view, with the endpoints that the guard keeps, and when the
// first of these are due for removal.
func (l *listing) resolveLocked(v view) (now resolution, again time.Time) {
	now = resolve(v.slices, l.service, l.builder.here)
	kept := l.keepLocked(v, now.endpoints)
	if len(kept.Endpoints) > 0 {
		now.endpoints = append(now.endpoints, kept.Endpoints...)
		now.empty = nil
		now.gone = fmt.Errorf("kubernetes: most endpoints of %v disappeared at once; they stay in use for %v", l.service.service, l.builder.removal)
	}
	return now, kept.Due
}

// keepLocked returns the endpoints that the guard keeps.
func (l *listing) keepLocked(v view, endpoints []resolver.Endpoint) lastgood.Kept[resolver.Endpoint] {
	now := time.Now()
	if v.err != nil {
		l.guard.Suspend(now)
	}
	if l.stale && !v.stale && len(endpoints) > 0 { // the list may have changed completely
		l.resetLocked()
	}
	kept := l.guard.Update(now, endpoints, 0)
	slices.SortFunc(kept.Endpoints, func(a, b resolver.Endpoint) int { return cmp.Compare(firstAddress(a), firstAddress(b)) })
	return kept
}

func firstAddress(e resolver.Endpoint) string { return e.Addresses[0].Addr }

// logLocked writes a line when the last endpoint disappears, and one when there are endpoints again,
// because gRPC's own round_robin does not return the reason to calls; and one about a target that
// is probably wrong.
func (l *listing) logLocked(now resolution) {
	switch {
	case now.empty != nil && l.logged.empty == nil:
		logger.Warning(now.empty)
	case now.empty == nil && l.logged.empty != nil:
		logger.Infof("kubernetes: %v has endpoints", l.service.service)
	}
	if now.gone != nil && l.logged.gone == nil {
		logger.Warning(now.gone)
	}
	if now.doubt != "" && now.doubt != l.logged.doubt {
		logger.Warningf("kubernetes: %s", now.doubt)
	}
	l.logged = now
}
