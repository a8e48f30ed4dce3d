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
	server              *Server
	scope               scope
	bookmarks, duration time.Duration // see rules
	version             int64         // up to which the client knows everything
	seen                int           // changes of the history up to that version
	pending             []watch.Event // to be sent before changes: the current objects, and bookmarks
	ends                int           // of all watches, when this one began
	expired             bool          // version is older than the history
}

// newWatcherLocked checks what the client asks for, as kube-apiserver does, and counts the watcher.
func (s *Server) newWatcherLocked(r *http.Request, c scope) (*watcher, error) {
	query := r.URL.Query()
	wr := &watcher{server: s, scope: c, duration: s.duration}
	if text := query.Get("resourceVersion"); text != "" {
		version, err := strconv.ParseInt(text, 10, 64)
		if err != nil || version < 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("Invalid value: %q: resourceVersion", text))
		}
		wr.version = version
	}
	streamed, err := streamsList(query, s.watchList)
	if err != nil {
		return nil, err
	}
	if query.Get("allowWatchBookmarks") == "true" {
		wr.bookmarks = s.bookmarks
	}
	s.watches++
	wr.ends = s.ends
	if streamed || wr.version == 0 {
		wr.version = s.objects.version
		for _, object := range s.objects.list(c) {
			wr.pending = append(wr.pending, watch.Event{Type: watch.Added, Object: object})
		}
	}
	if streamed {
		wr.pending = append(wr.pending, wr.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"}))
	}
	for _, c := range s.objects.history {
		if c.version <= wr.version {
			wr.seen++
		}
	}
	wr.expired = wr.version < s.objects.compacted
	return wr, nil
}

// streamsList reports whether the watch is to begin with the list and say where it ends.
func streamsList(query url.Values, mode WatchList) (bool, error) {
	if query.Get("sendInitialEvents") != "true" || mode == WatchListUnknown {
		return false, nil
	}
	if mode == WatchListServed {
		return true, nil
	}
	return false, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: `ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: ` +
			`sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled`,
	}}
}

// run sends events until the watch ends.
func (w *watcher) run(ctx context.Context, to http.ResponseWriter) error {
	defer w.leave()
	if w.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.duration)
		defer cancel()
	}
	var bookmarks <-chan time.Time
	if w.bookmarks > 0 {
		bookmarks = time.Tick(w.bookmarks)
	}
	out, flush := json.NewEncoder(to), http.NewResponseController(to).Flush
	for {
		events, more := w.next()
		for _, e := range events {
			if err := out.Encode(metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Object: e.Object}}); err != nil {
				return err
			}
		}
		if err := flush(); err != nil || more == nil {
			return err
		}
		select {
		case <-more:
		case <-bookmarks:
			w.pending = append(w.pending, w.bookmark(nil))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *watcher) leave() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.watches--
}

// next returns what is sent now, and a channel that is closed when there may be more, nil if the watch ends.
func (w *watcher) next() (events []watch.Event, more <-chan struct{}) {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	// Nothing is sent after the end of the watches, so that tests can rely on it.
	ended := w.ends != s.ends
	if w.expired || ended && s.expired {
		status := statusOf(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", w.version)))
		return []watch.Event{{Type: watch.Error, Object: status}}, nil
	}
	if ended {
		return nil, nil
	}
	events, w.pending = w.pending, nil
	for _, c := range s.objects.history[w.seen:] {
		if e, ok := w.scope.event(c); ok {
			events = append(events, e)
		}
	}
	w.seen, w.version = len(s.objects.history), max(w.version, s.objects.version)
	return events, s.changed
}

// event returns how a change looks from within the scope, false if it cannot be seen: an object that no longer matches is
// a deleted one.
func (c scope) event(of change) (watch.Event, bool) {
	was, is := c.matches(of.old), c.matches(of.new)
	switch {
	case is && was:
		return watch.Event{Type: watch.Modified, Object: of.new}, true
	case is:
		return watch.Event{Type: watch.Added, Object: of.new}, true
	case was:
		// The object as it was, at the version of its end.
		last := of.old.DeepCopy()
		last.ResourceVersion = strconv.FormatInt(of.version, 10)
		return watch.Event{Type: watch.Deleted, Object: last}, true
	}
	return watch.Event{}, false
}

func (w *watcher) bookmark(annotations map[string]string) watch.Event {
	return watch.Event{Type: watch.Bookmark, Object: &discoveryv1.EndpointSlice{
		TypeMeta:   kind,
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(w.version, 10), Annotations: annotations},
	}}
}
