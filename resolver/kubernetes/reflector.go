package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
