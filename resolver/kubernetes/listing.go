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

// listing makes the list of one destination from what a source knows, once for all channels. They
// share its guard: one that opens while most endpoints are gone has those that the others keep.
type listing struct {
	source  *source
	builder *builder
	service serviceTarget

	mu     sync.Mutex
	guard  lastgood.Guard[resolver.Endpoint]
	stale  bool       // the guard has seen no list but an old one
	latest list       // the last one that was made
	logged resolution // what grpc's log has been told about
}

// list is a view with the endpoints that it comes to. It is not changed once it is made.
type list struct {
	view view
	resolution
	changed <-chan struct{} // closed when there is another view
	again   time.Time       // when there is another list of the same view; never if zero
	took    time.Duration   // to make it
}

// listing returns the one of a destination.
func (s *source) listing(b *builder, d serviceTarget) *listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.listings[d]
	if l == nil {
		l = &listing{source: s, builder: b, service: d}
		l.reset()
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

// reset forgets what has been listed. It needs the lock.
func (l *listing) reset() {
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
		l.latest.resolution, l.latest.again = l.resolve(v)
		l.latest.took = time.Since(began)
		l.log(l.latest.resolution)
	}
	return l.latest
}

// resolve returns what a view comes to, with the endpoints that stay although they are gone, and
// when the first of these are due for removal. It needs the lock.
func (l *listing) resolve(v view) (now resolution, again time.Time) {
	now = resolve(v.slices, l.service, l.builder.here)
	kept := l.keep(v, now.endpoints)
	if len(kept.Endpoints) > 0 {
		now.endpoints = append(now.endpoints, kept.Endpoints...)
		now.empty = nil
		now.gone = fmt.Errorf("kubernetes: most endpoints of %v are gone at once; they stay in use for %v", l.service.service, l.builder.removal)
	}
	return now, kept.Due
}

// keep returns the endpoints that stay although they are gone. It needs the lock.
func (l *listing) keep(v view, endpoints []resolver.Endpoint) lastgood.Kept[resolver.Endpoint] {
	now := time.Now()
	if v.err != nil {
		l.guard.Suspend(now)
	}
	if l.stale && !v.stale && len(endpoints) > 0 { // much may have changed meanwhile
		l.reset()
	}
	kept := l.guard.Update(now, endpoints, 0)
	slices.SortFunc(kept.Endpoints, func(a, b resolver.Endpoint) int { return cmp.Compare(firstAddress(a), firstAddress(b)) })
	return kept
}

func firstAddress(e resolver.Endpoint) string { return e.Addresses[0].Addr }

// log writes a line when the last endpoint goes, and one when there are some again, because
// grpc's own round_robin does not show calls why it has none; and one about a target that is
// probably wrong. It needs the lock.
func (l *listing) log(now resolution) {
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
