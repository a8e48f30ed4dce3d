package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"google.golang.org/grpc/resolver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/feed"
	"github.com/quorate/quorate/internal/lastgood"
)

// listAndWatch follows the service until an error, which it returns with the verb of the last request.
func (s *source) listAndWatch(ctx context.Context) (verb string, err error) {
	s.synced, s.steady = false, false
	if s.link == nil {
		if s.link, err = s.links.acquire(); err != nil {
			return "watch", err
		}
	}
	if s.store.resourceVersion != "" {
		if err := s.watch(ctx); !expired(err) {
			return "watch", err
		}
		// The API server has restarted. The list is requested at once, whatever the backoff.
		s.expire()
	}
	if !s.listFirst.Load() {
		return "watch", s.watchList(ctx)
	}
	if err := s.list(ctx); err != nil {
		return "list", err
	}
	return "watch", s.watch(ctx)
}

// watchList streams the list and then its changes. It needs only the verb watch.
func (s *source) watchList(ctx context.Context) error {
	r, err := s.link.get(ctx, s.service, map[string]string{
		"watch":                "true",
		"allowWatchBookmarks":  "true",
		"sendInitialEvents":    "true",
		"resourceVersionMatch": string(metav1.ResourceVersionMatchNotOlderThan),
	}, s.timing.answer)
	if err != nil {
		if c := code(err); c == http.StatusUnprocessableEntity || c == http.StatusBadRequest {
			return errors.Join(errNoWatchList, err)
		}
		return err
	}
	defer r.close()
	whole, err := s.initialEvents(r)
	if err != nil {
		return err
	}
	s.store = whole
	s.succeed()
	return s.handleWatch(r)
}

// initialEvents returns what a watch delivers up to the end of the list. Servers that do not stream
// lists send changes without end, so only new slices count as progress.
func (s *source) initialEvents(r *request) (*store, error) {
	whole := newStore()
	r.within(s.timing.listed, errNoWatchList)
	for most := 0; ; {
		e, err := r.next()
		switch {
		case errors.Is(err, errEnded), expired(err):
			// Before the end of the list this is a fault.
			return nil, fmt.Errorf("%w: %s", errIncomplete, err.Error())
		case err != nil:
			return nil, err
		case e.listEnd:
			whole.resourceVersion = e.object.ResourceVersion
			return whole, nil
		}
		whole.apply(e)
		if len(whole.slices) > most {
			most = len(whole.slices)
			r.within(s.timing.listed, errNoWatchList)
		}
	}
}

// list requests all slices at once, from servers that do not stream them. The cache of the API server answers if it is
// not older than what is known: etcd would read the namespace for each client.
func (s *source) list(ctx context.Context) error {
	err := s.listFrom(ctx, cmp.Or(s.seen, "0"))
	if expired(err) { // a backup was restored
		err = s.listFrom(ctx, "")
	}
	return err
}

func (s *source) listFrom(ctx context.Context, version string) error {
	r, err := s.link.get(ctx, s.service, map[string]string{"resourceVersion": version}, s.timing.answer)
	if err != nil {
		return err
	}
	defer r.close()
	r.within(s.timing.silence, errNoAnswer) // a large list takes long on a slow link
	all, err := r.list()
	if err != nil {
		return err
	}
	whole := newStore()
	whole.resourceVersion = all.ResourceVersion
	for i := range all.Items {
		slice := &all.Items[i]
		slice.ManagedFields = nil
		whole.slices[slice.Name] = slice
	}
	s.store = whole
	s.succeed()
	return nil
}

// watch watches from the last known version.
func (s *source) watch(ctx context.Context) error {
	r, err := s.link.get(ctx, s.service, map[string]string{
		"watch":               "true",
		"allowWatchBookmarks": "true",
		"resourceVersion":     s.store.resourceVersion,
	}, s.timing.answer)
	if err != nil {
		return err
	}
	defer r.close()
	s.succeed()
	return s.handleWatch(r)
}

// handleWatch processes the events of a watch until it ends.
func (s *source) handleWatch(r *request) error {
	began := time.Now()
	for {
		r.within(s.timing.silence, errSilent)
		e, err := r.next()
		s.steady = time.Since(began) >= s.timing.steady
		if err != nil {
			return err
		}
		if v := e.object.ResourceVersion; v != "" {
			s.store.resourceVersion = v
		}
		if s.store.apply(e) {
			s.publish()
		}
	}
}

// listing has the list of one destination. All its channels share the guard: a channel that opens
// while most endpoints are gone gets those that the other channels keep.
type listing struct {
	*feed.Feed
	source      *source
	destination serviceTarget

	// The fields below are guarded by source.mu.
	guard  lastgood.Guard[resolver.Endpoint]
	users  int                 // channels
	stale  bool                // the guard has seen no list, only a stale one, or missed changes
	used   []resolver.Endpoint // the last list, nil if there was none
	logged resolution          // the last one that was logged
}

// listing returns the listing of a destination.
func (s *source) listing(d serviceTarget) *listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.listings[d]
	if l == nil {
		l = &listing{source: s, destination: d, stale: true}
		l.Feed = feed.New(&s.mu, l.stateLocked)
		l.guard = lastgood.Guard[resolver.Endpoint]{Key: firstAddress, Delay: s.cfg.MassRemovalDelay}
		if used := s.last.used[d]; len(used) > 0 {
			l.guard.Update(time.Now(), used, 0)
		}
		s.listings[d] = l
	}
	l.users++
	return l
}

// leave is called when a channel has closed.
func (l *listing) leave() {
	l.source.mu.Lock()
	defer l.source.mu.Unlock()
	l.users--
}

// stateLocked returns the state of the channels.
func (l *listing) stateLocked() feed.State {
	v, due := l.source.viewLocked()
	if !v.listed {
		return feed.State{Problem: textOf(v.err), Due: due}
	}
	now := resolve(v.slices, l.destination, place{zone: l.source.cfg.Zone, node: l.source.cfg.Node})
	kept := l.keepLocked(v, now)
	if len(kept.Endpoints) > 0 {
		now.endpoints = distinct(append(now.endpoints, kept.Endpoints...))
		now.empty = nil
		now.gone = fmt.Errorf("kubernetes: most endpoints of %v disappeared at once; they stay in use for %v", l.destination.service, l.guard.Delay)
	}
	l.used = now.endpoints
	l.logLocked(now)
	return feed.State{Endpoints: now.endpoints, Listed: true, Problem: textOf(problemOf(now, v.err)), Due: kept.Due}
}

// keepLocked returns the endpoints that the guard keeps.
func (l *listing) keepLocked(v view, r resolution) lastgood.Kept[resolver.Endpoint] {
	now := time.Now()
	if v.err != nil {
		l.guard.Suspend(now)
	}
	if l.stale && !v.stale {
		l.guard.Outdate()
		l.stale = false
	}
	l.guard.Forget(r.withdrawn)
	kept := l.guard.Update(now, r.endpoints, 0)
	slices.SortFunc(kept.Endpoints, func(a, b resolver.Endpoint) int { return cmp.Compare(firstAddress(a), firstAddress(b)) })
	return kept
}

// distinct removes endpoints with an address of an earlier one: those of a backend that had other addresses before.
func distinct(endpoints []resolver.Endpoint) []resolver.Endpoint {
	used := make(map[string]bool)
	return slices.DeleteFunc(endpoints, func(e resolver.Endpoint) (known bool) {
		for _, a := range e.Addresses {
			known = known || used[a.Addr]
			used[a.Addr] = true
		}
		return known
	})
}

func firstAddress(e resolver.Endpoint) string { return e.Addresses[0].Addr }

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

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// logLocked writes a line when the last endpoint disappears, and one when there are endpoints again,
// because gRPC's own round_robin does not return the reason to calls; one when most disappear at
// once; and one about a target that is probably wrong.
func (l *listing) logLocked(now resolution) {
	switch {
	case now.empty != nil && l.logged.empty == nil:
		logger.Warning(now.empty)
	case now.empty == nil && l.logged.empty != nil:
		logger.Infof("kubernetes: %v has endpoints", l.destination.service)
	}
	if now.gone != nil && l.logged.gone == nil {
		logger.Warning(now.gone)
	}
	if now.doubt != "" && now.doubt != l.logged.doubt {
		logger.Warningf("kubernetes: %s", now.doubt)
	}
	l.logged = now
}
