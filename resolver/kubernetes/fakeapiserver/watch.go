package fakeapiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher serves one watch.
type watcher struct {
	scope    scope
	store    *store
	version  int64 // up to which the client knows everything
	initial  []*discoveryv1.EndpointSlice
	epoch    *epoch
	end      bool // the initial events end with a bookmark
	expired  bool // version is older than the history
	out      *json.Encoder
	flush    func() error
	bookmark time.Duration // 0: none
	duration time.Duration // 0: no limit
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	err := s.admit(r, "watch")
	var wr *watcher
	if err == nil {
		wr, err = s.newWatcher(r)
	}
	if err != nil {
		code, body := failure(err)
		s.note(r, "watch", code)
		send(w, code, body)
		return
	}
	defer s.store.leave()
	s.note(r, "watch", http.StatusOK)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	wr.out, wr.flush = json.NewEncoder(w), http.NewResponseController(w).Flush
	ctx := r.Context()
	if wr.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wr.duration)
		defer cancel()
	}
	// An error means that the client has gone, or that the watch has lasted for its duration.
	_ = wr.run(ctx)
}

// newWatcher checks what the client asks for, as kube-apiserver does, and takes up position.
func (s *Server) newWatcher(r *http.Request) (*watcher, error) {
	rules, query := s.current(), r.URL.Query()
	c, err := scopeOf(r)
	if err != nil {
		return nil, err
	}
	version := int64(0)
	if text := query.Get("resourceVersion"); text != "" {
		if version, err = strconv.ParseInt(text, 10, 64); err != nil || version < 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("Invalid value: %q: resourceVersion", text))
		}
	}
	streamed, err := streamsList(query, rules.watchList)
	if err != nil {
		return nil, err
	}
	wr := &watcher{scope: c, store: s.store, version: version, duration: rules.duration, end: streamed}
	if query.Get("allowWatchBookmarks") == "true" {
		wr.bookmark = rules.bookmarks
	}
	if limit, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil && limit > 0 {
		if d := time.Duration(limit) * time.Second; wr.duration == 0 || d < wr.duration {
			wr.duration = d
		}
	}
	s.store.enter(wr, streamed || version == 0)
	return wr, nil
}

// streamsList reports whether the watch is to begin with the list and say where it ends.
func streamsList(query url.Values, mode WatchList) (bool, error) {
	if query.Get("sendInitialEvents") != "true" || mode == WatchListUnknown {
		return false, nil
	}
	refusal := ""
	switch {
	case mode == WatchListRefused:
		refusal = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
	case query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchNotOlderThan):
		refusal = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
	default:
		return true, nil
	}
	return false, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: `ListOptions.meta.k8s.io "" is invalid: ` + refusal,
	}}
}

// enter counts the watcher, and gives it the current objects or its place in the history.
func (s *store) enter(wr *watcher, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	wr.epoch = s.epoch
	if whole {
		wr.initial, wr.version = s.listLocked(wr.scope), s.version
	}
	wr.expired = wr.version < s.compacted
}

func (s *store) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

// since returns what happened after a version, and a channel that is closed when there is more.
func (s *store) since(version int64) ([]change, int64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := len(s.history)
	for from > 0 && s.history[from-1].version > version {
		from--
	}
	return s.history[from:len(s.history):len(s.history)], max(version, s.version), s.more
}

func (w *watcher) run(ctx context.Context) error {
	if err := w.begin(); err != nil || w.expired {
		return err
	}
	var bookmarks <-chan time.Time
	if w.bookmark > 0 {
		bookmarks = time.Tick(w.bookmark)
	}
	for {
		changes, version, more := w.store.since(w.version)
		// Nothing is sent after the end of the watches, so that tests can rely on it.
		select {
		case <-w.epoch.over:
			if w.epoch.expired {
				return w.expire()
			}
			return nil
		default:
		}
		if err := w.sendChanges(changes); err != nil {
			return err
		}
		w.version = version
		select {
		case <-more:
		case <-w.epoch.over:
		case <-bookmarks:
			if err := w.mark(nil); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin sends the headers, the existing objects, and, if requested, a bookmark after them.
func (w *watcher) begin() error {
	if w.expired {
		return w.expire()
	}
	for _, object := range w.initial {
		if err := w.send(watch.Added, object); err != nil {
			return err
		}
	}
	if w.end {
		return w.mark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return w.flush()
}

// sendChanges sends changes as they look from within the scope: an object that no longer matches is
// a deleted one.
func (w *watcher) sendChanges(changes []change) error {
	for _, c := range changes {
		was, is := w.scope.matches(c.old), w.scope.matches(c.new)
		var err error
		switch {
		case is && was:
			err = w.send(watch.Modified, c.new)
		case is:
			err = w.send(watch.Added, c.new)
		case was:
			// The object as it was, at the version of its end.
			last := c.old.DeepCopy()
			last.ResourceVersion = strconv.FormatInt(c.version, 10)
			err = w.send(watch.Deleted, last)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) mark(annotations map[string]string) error {
	return w.send(watch.Bookmark, &discoveryv1.EndpointSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(w.version, 10), Annotations: annotations},
	})
}

func (w *watcher) expire() error {
	_, status := failure(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", w.version)))
	return w.send(watch.Error, status)
}

func (w *watcher) send(kind watch.EventType, object any) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if err := w.out.Encode(metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}}); err != nil {
		return err
	}
	return w.flush()
}
