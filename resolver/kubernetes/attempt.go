package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attempt follows the service for as long as it can. It returns what it last asked of the
// API server, and why it cannot go on, which is never nil.
func (f *feed) attempt(ctx context.Context) (verb string, err error) {
	f.up, f.steady = false, false
	if f.link == nil {
		if f.link, err = f.links.acquire(); err != nil {
			return "watch", err
		}
	}
	if f.known.version != "" {
		if err := f.resume(ctx); !errors.Is(err, errExpired) {
			return "watch", err
		}
		// As after each restart of the API server. The list is asked for at once, however
		// long the pauses have become meanwhile.
		f.known.version = ""
	}
	if !f.listFirst.Load() {
		return "watch", f.watchList(ctx)
	}
	if err := f.list(ctx); err != nil {
		return "list", err
	}
	return "watch", f.resume(ctx)
}

// watchList streams the list and then its changes. The verb watch is enough for it.
func (f *feed) watchList(ctx context.Context) error {
	r, err := f.link.get(ctx, f.service, map[string]string{
		"watch":                "true",
		"allowWatchBookmarks":  "true",
		"sendInitialEvents":    "true",
		"resourceVersionMatch": string(metav1.ResourceVersionMatchNotOlderThan),
	}, f.timing.answer)
	if err != nil {
		if c := code(err); c == http.StatusUnprocessableEntity || c == http.StatusBadRequest {
			return errors.Join(errNoWatchList, err)
		}
		return err
	}
	defer r.close()
	whole, err := f.streamed(r)
	if err != nil {
		return err
	}
	f.known = whole
	f.succeed()
	return f.follow(r)
}

// streamed returns what a watch brings up to the end of the list. Servers that do not stream
// lists send changes without end, so that only slices that are new count as progress.
func (f *feed) streamed(r *request) (*inventory, error) {
	whole := newInventory()
	r.within(f.timing.listed, errNoWatchList)
	for most := 0; ; {
		e, err := r.next()
		switch {
		case errors.Is(err, errEnded), errors.Is(err, errExpired):
			// Not in the order of things here, and to be reported.
			return nil, fmt.Errorf("%w: %s", errIncomplete, err.Error())
		case err != nil:
			return nil, err
		case e.listEnd:
			whole.version = e.object.ResourceVersion
			return whole, nil
		}
		whole.apply(e)
		if len(whole.slices) > most {
			most = len(whole.slices)
			r.within(f.timing.listed, errNoWatchList)
		}
	}
}

// list asks for all slices at once, of servers that do not stream them.
func (f *feed) list(ctx context.Context) error {
	r, err := f.link.get(ctx, f.service, nil, f.timing.answer)
	if err != nil {
		return err
	}
	defer r.close()
	r.within(f.timing.silence, errNoAnswer) // it may be large, and the way narrow
	all, err := r.list()
	if err != nil {
		return err
	}
	whole := newInventory()
	whole.version = all.ResourceVersion
	for i := range all.Items {
		slice := &all.Items[i]
		slice.ManagedFields = nil
		whole.slices[slice.Name] = slice
	}
	f.known = whole
	f.succeed()
	return nil
}

// resume watches from the last version that is known.
func (f *feed) resume(ctx context.Context) error {
	r, err := f.link.get(ctx, f.service, map[string]string{
		"watch":               "true",
		"allowWatchBookmarks": "true",
		"resourceVersion":     f.known.version,
	}, f.timing.answer)
	if err != nil {
		if expired(err) {
			return errors.Join(errExpired, err)
		}
		return err
	}
	defer r.close()
	f.succeed()
	return f.follow(r)
}

// follow processes what a watch brings until it ends.
func (f *feed) follow(r *request) error {
	began := time.Now()
	for {
		r.within(f.timing.silence, errSilent)
		e, err := r.next()
		f.steady = time.Since(began) >= f.timing.steady
		if err != nil {
			return err
		}
		if v := e.object.ResourceVersion; v != "" {
			f.known.version = v
		}
		if f.known.apply(e) {
			f.publish()
		}
	}
}
