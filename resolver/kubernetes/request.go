package kubernetes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// request is one GET of EndpointSlices with a watchdog, which cancels it when nothing arrives for
// as long as the current phase allows.
type request struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	watchdog *time.Timer
	body     io.ReadCloser
	in       *json.Decoder
}

// event is an event of a watch: an object, or a bookmark with a version and no object.
type event struct {
	kind    watch.EventType
	object  *discoveryv1.EndpointSlice
	listEnd bool // of a streamed list
}

// get sends a request and waits for the header of the response. The request must be closed.
func (k *link) get(ctx context.Context, service serviceKey, parameters map[string]string, timeout time.Duration) (*request, error) {
	r := new(request)
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.watchdog = time.AfterFunc(timeout, func() { r.cancel(errNoAnswer) })
	get := k.client.Get().Namespace(service.namespace).Resource("endpointslices").MaxRetries(0)
	get.Param("labelSelector", labels.Set{discoveryv1.LabelServiceName: service.name}.String())
	for name, value := range parameters {
		get.Param(name, value)
	}
	body, err := stream(r.ctx, get)
	if err != nil {
		err = cause(r.ctx, err)
		r.close()
		return nil, err
	}
	r.body = body
	r.in = json.NewDecoder(bufio.NewReader(body))
	return r, nil
}

// reaction bounds the time that a transport takes to cancel a request. Parts of the user, such as
// a plugin for credentials, may not see the cancellation.
const reaction = time.Second

// stream sends a request and returns the body of the response. It returns soon after the end of
// ctx, whatever the transport does.
func stream(ctx context.Context, get *rest.Request) (io.ReadCloser, error) {
	type answer struct {
		body io.ReadCloser
		err  error
	}
	answered, left := make(chan answer), make(chan struct{})
	go func() {
		body, err := get.Stream(ctx)
		select {
		case answered <- answer{body, err}:
		case <-left:
			if err == nil {
				_ = body.Close()
			}
		}
	}()
	select {
	case a := <-answered:
		return a.body, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answered:
		return a.body, a.err
	case <-time.After(reaction):
		close(left)
		return nil, ctx.Err()
	}
}

func (r *request) close() {
	r.watchdog.Stop()
	r.cancel(context.Canceled)
	if r.body != nil {
		_ = r.body.Close()
	}
}

// within cancels the request with err if nothing arrives for d.
func (r *request) within(d time.Duration, err error) {
	r.watchdog.Stop()
	r.watchdog = time.AfterFunc(d, func() { r.cancel(err) })
}

func (r *request) list() (*discoveryv1.EndpointSliceList, error) {
	all := new(discoveryv1.EndpointSliceList)
	if err := r.in.Decode(all); err != nil {
		return nil, cause(r.ctx, fmt.Errorf("read the list of the API server: %w", err))
	}
	return all, nil
}

// next reads the next event of a watch. The error is errEnded when the server has ended it.
func (r *request) next() (event, error) {
	var raw metav1.WatchEvent
	if err := r.in.Decode(&raw); err != nil {
		if errors.Is(err, io.EOF) {
			err = errEnded
		} else {
			err = fmt.Errorf("the watch broke: %w", err)
		}
		return event{}, cause(r.ctx, err)
	}
	if raw.Type == string(watch.Error) {
		status := new(metav1.Status)
		if err := json.Unmarshal(raw.Object.Raw, status); err != nil {
			return event{}, fmt.Errorf("read an error event of the API server: %w", err)
		}
		return event{}, apierrors.FromObject(status)
	}
	object := new(discoveryv1.EndpointSlice)
	if err := json.Unmarshal(raw.Object.Raw, object); err != nil {
		return event{}, fmt.Errorf("read an event of the API server: %w", err)
	}
	object.ManagedFields = nil // unused, and a third of the memory
	e := event{kind: watch.EventType(raw.Type), object: object}
	e.listEnd = e.kind == watch.Bookmark && object.Annotations[metav1.InitialEventsAnnotationKey] == "true"
	return e, nil
}
