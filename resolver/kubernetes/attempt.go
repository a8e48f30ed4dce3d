package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attempt follows the service for as long as it can. It returns what it last asked of the
// API server, and why it cannot go on, which is never nil.
func (f *feed) attempt(ctx context.Context) (verb string, err error) {
	f.steady = false
	if f.link == nil {
		if f.link, err = f.links.acquire(); err != nil {
			return "watch", err
		}
	}
	switch {
	case f.known.version != "":
		return "watch", f.resume(ctx)
	case f.listFirst:
		if err := f.list(ctx); err != nil {
			return "list", err
		}
		return "watch", f.resume(ctx)
	default:
		return "watch", f.watchList(ctx)
	}
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
	whole := newInventory()
	for {
		r.within(f.timing.listed, errNoWatchList)
		e, err := r.next()
		if err != nil {
			return err
		}
		whole.apply(e)
		if e.listEnd {
			whole.version = e.object.ResourceVersion
			break
		}
	}
	f.known = whole
	f.succeed()
	return f.follow(r)
}

// list asks for all slices at once, of servers that do not stream them.
func (f *feed) list(ctx context.Context) error {
	r, err := f.link.get(ctx, f.service, nil, f.timing.answer)
	if err != nil {
		return err
	}
	defer r.close()
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

// follow takes in what a watch brings until it ends.
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
