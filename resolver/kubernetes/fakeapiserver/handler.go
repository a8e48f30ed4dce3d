package fakeapiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// serve answers a list or a watch, and notes it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, wr := s.answer(r)
	if body == nil && wr == nil {
		panic(http.ErrAbortHandler) // the server is closed: the request gets no answer
	}
	defer s.handlers.Done()
	w.Header().Set("Content-Type", "application/json")
	// An error means that the client has gone, or that a watch has lasted for its duration.
	if wr != nil {
		_ = wr.run(r.Context(), w)
		return
	}
	if status, ok := body.(*metav1.Status); ok {
		w.WriteHeader(int(status.Code))
	}
	_ = json.NewEncoder(w).Encode(body)
}

// answer returns a list, or why there is none, or a watcher. The caller is counted among the handlers, unless the server is closed.
func (s *Server) answer(r *http.Request) (body any, wr *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil
	}
	s.handlers.Add(1)
	verb := "list"
	if watch, err := strconv.ParseBool(r.URL.Query().Get("watch")); err == nil && watch {
		verb = "watch"
	}
	c, err := s.admit(r, verb)
	switch {
	case err != nil:
	case verb == "watch":
		wr, err = s.newWatcherLocked(r, c)
	default:
		body = s.listLocked(c)
	}
	code := http.StatusOK
	if err != nil {
		status := statusOf(err)
		code, body = int(status.Code), status
	}
	s.requests = append(s.requests, Request{Verb: verb, Namespace: c.namespace, Query: r.URL.Query(), Protocol: r.Proto, Code: code, At: time.Now()})
	s.changedLocked()
	return body, wr
}

// admit returns what a request asks for, or refuses what the rules refuse, in the words of kube-apiserver.
func (r *rules) admit(req *http.Request, verb string) (scope, error) {
	path, inGroup := strings.CutPrefix(req.URL.Path, "/apis/discovery.k8s.io/v1/")
	in, ofSlices := strings.CutSuffix("/"+path, "/endpointslices")
	namespace := strings.TrimPrefix(in, "/namespaces/")
	c := scope{namespace: namespace}
	if !inGroup || !ofSlices || strings.Contains(namespace, "/") {
		return c, apierrors.NewGenericServerResponse(http.StatusNotFound, verb, resource, "", req.URL.Path, 0, false)
	}
	token := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	if len(r.tokens) > 0 && !slices.Contains(r.tokens, token) {
		return c, apierrors.NewUnauthorized("Unauthorized")
	}
	if r.denied[verb] {
		where := "at the cluster scope"
		if namespace != "" {
			where = fmt.Sprintf("in the namespace %q", namespace)
		}
		why := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s",
			"system:serviceaccount:default:client", verb, resource.Resource, resource.Group, where)
		return c, apierrors.NewForbidden(resource, "", errors.New(why))
	}
	selector, err := labels.Parse(req.URL.Query().Get("labelSelector"))
	if err != nil {
		return c, apierrors.NewBadRequest(err.Error())
	}
	c.selector = selector
	return c, nil
}

// statusOf turns an error into what clients get.
func statusOf(err error) *metav1.Status {
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		api = apierrors.NewInternalError(err)
	}
	status := api.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &status
}

func (s *Server) listLocked(c scope) *discoveryv1.EndpointSliceList {
	list := &discoveryv1.EndpointSliceList{
		TypeMeta: metav1.TypeMeta{APIVersion: kind.APIVersion, Kind: "EndpointSliceList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(s.objects.version, 10)},
		Items:    []discoveryv1.EndpointSlice{},
	}
	for _, object := range s.objects.list(c) {
		list.Items = append(list.Items, *object)
	}
	return list
}

// Request is a request that arrived.
type Request struct {
	// Verb is the Kubernetes verb: list or watch.
	Verb string
	// Namespace is empty if the request is about all of them.
	Namespace string
	// Query are the parameters, with labelSelector, resourceVersion and so on.
	Query url.Values
	// Protocol is HTTP/1.1 or HTTP/2.0.
	Protocol string
	// Code is what was answered first: 200 for watches that were opened.
	Code int
	// At is when it was answered first.
	At time.Time
}

// Requests returns all requests that have arrived, in the order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Count returns how many requests of a verb (list or watch) have arrived, refused ones included.
func (s *Server) Count(verb string) int {
	n, _ := s.count(verb)
	return n
}

// count returns also a channel that is closed when there may be more.
func (s *Server) count(verb string) (n int, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.Verb == verb {
			n++
		}
	}
	return n, s.changed
}

// Wait waits until n requests of a verb have arrived in all. It returns the error of ctx if
// that ends first.
func (s *Server) Wait(ctx context.Context, verb string, n int) error {
	for {
		have, more := s.count(verb)
		if have >= n {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
