package fakeapiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	root       = "/apis/discovery.k8s.io/v1"
	collection = root + "/namespaces/{namespace}/endpointslices"
)

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	for _, path := range []string{collection, root + "/endpointslices"} {
		mux.HandleFunc("GET "+path, s.collect)
	}
	mux.HandleFunc("GET "+collection+"/{name}", s.serve("get", s.read))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			return
		}
		defer s.handlers.Done()
		mux.ServeHTTP(w, r)
	})
}

// collect serves a list or a watch.
func (s *Server) collect(w http.ResponseWriter, r *http.Request) {
	if watch, err := strconv.ParseBool(r.URL.Query().Get("watch")); err == nil && watch {
		s.watch(w, r)
		return
	}
	s.serve("list", s.list)(w, r)
}

// serve returns a handler for a request that is no watch.
func (s *Server) serve(verb string, answer func(r *http.Request) (body any, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body any
		err := s.admit(r, verb)
		if err == nil {
			body, err = answer(r)
		}
		code := http.StatusOK
		if err != nil {
			code, body = failure(err)
		}
		s.note(r, verb, code)
		send(w, code, body)
	}
}

func (s *Server) note(r *http.Request, verb string, code int) {
	s.journal.add(Request{
		Verb: verb, Namespace: r.PathValue("namespace"), Name: r.PathValue("name"),
		Query: r.URL.Query(), Protocol: r.Proto, Code: code,
	})
}

// admit refuses what the rules refuse, in the words of kube-apiserver.
func (s *Server) admit(r *http.Request, verb string) error {
	rules := s.current()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if len(rules.tokens) > 0 && !slices.Contains(rules.tokens, token) {
		return apierrors.NewUnauthorized("Unauthorized")
	}
	if !rules.denied[verb] {
		return nil
	}
	where := "at the cluster scope"
	if namespace := r.PathValue("namespace"); namespace != "" {
		where = fmt.Sprintf("in the namespace %q", namespace)
	}
	why := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s",
		"system:serviceaccount:default:client", verb, resource.Resource, resource.Group, where)
	return apierrors.NewForbidden(resource, r.PathValue("name"), errors.New(why))
}

// failure turns an error into the Status that clients get.
func failure(err error) (int, any) {
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		api = apierrors.NewInternalError(err)
	}
	status := api.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return int(status.Code), &status
}

func send(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// An error means that the client has gone.
	_ = json.NewEncoder(w).Encode(body)
}

func scopeOf(r *http.Request) (scope, error) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return scope{}, apierrors.NewBadRequest(err.Error())
	}
	return scope{namespace: r.PathValue("namespace"), selector: selector}, nil
}

func (s *Server) list(r *http.Request) (any, error) {
	c, err := scopeOf(r)
	if err != nil {
		return nil, err
	}
	found, version := s.store.list(c)
	list := &discoveryv1.EndpointSliceList{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSliceList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(version, 10)},
		Items:    make([]discoveryv1.EndpointSlice, 0, len(found)),
	}
	for _, object := range found {
		list.Items = append(list.Items, *object)
	}
	return list, nil
}

func (s *Server) read(r *http.Request) (any, error) {
	return s.Get(r.PathValue("namespace"), r.PathValue("name"))
}
