package kubernetes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
)

// links creates connections to the API server. All watches of a Builder share one. A link that
// fails is retired: its users may continue with it, and the next link reads certificates and
// tokens from their files again.
type links struct {
	config *rest.Config
	timing timing

	mu      sync.Mutex
	current *link
}

// link is a client of the API server with connections of its own.
type link struct {
	client *rest.RESTClient
	dialer *connrotation.Dialer // tracks the connections, unless the transport is the user's
	ctx    context.Context      // ends with close
	cancel context.CancelFunc
	users  int // guarded by links.mu
}

func newLinks(config *rest.Config, t timing) (*links, error) {
	config = rest.CopyConfig(config)
	config.Timeout, config.QPS, config.RateLimiter = 0, -1, nil
	config.APIPath, config.GroupVersion = "/apis", &discoveryv1.SchemeGroupVersion
	config.NegotiatedSerializer = serializers()
	config.AcceptContentTypes, config.ContentType = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	l := &links{config: config, timing: t}
	first, err := l.open()
	if err != nil {
		return nil, fmt.Errorf("kubernetes: Config.REST cannot be used: %w", err)
	}
	first.close()
	return l, nil
}

// serializers decode the Status of errors. Everything else is plain JSON.
func serializers() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme).WithoutConversion()
}

// acquire returns the current link, or a new one. It must be released.
func (l *links) acquire() (*link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		k, err := l.open()
		if err != nil {
			return nil, err
		}
		l.current = k
	}
	l.current.users++
	return l.current, nil
}

// release closes the connections of a link after its last user. With retire, later callers do not
// get it.
func (l *links) release(k *link, retire bool) {
	l.mu.Lock()
	k.users--
	last := k.users == 0
	if (last || retire) && l.current == k {
		l.current = nil
	}
	l.mu.Unlock()
	if last {
		k.close()
	}
}

func (l *links) open() (*link, error) {
	tc, err := l.config.TransportConfig()
	if err != nil {
		return nil, err
	}
	k := newLink(tc.DialHolder)
	base := tc.Transport
	if base == nil {
		if base, err = l.transport(tc, k.dial); err != nil {
			k.close()
			return nil, err
		}
	}
	if base, err = transport.HTTPWrappersForConfig(tc, base); err == nil {
		k.client, err = rest.RESTClientForConfigAndClient(l.config, &http.Client{Transport: base, CheckRedirect: checkRedirect})
	}
	if err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

// maxRedirects is the limit of package net/http.
const maxRedirects = 10

// checkRedirect refuses redirects to other hosts and from TLS to plaintext: the credentials would be sent there.
func checkRedirect(to *http.Request, via []*http.Request) error {
	from := via[0].URL
	if to.URL.Hostname() != from.Hostname() || to.URL.Scheme != "https" && from.Scheme == "https" || len(via) >= maxRedirects {
		return fmt.Errorf("the API server redirects to %s://%s, where the credentials are not sent", to.URL.Scheme, to.URL.Host)
	}
	return nil
}

// transport returns an HTTP/2 transport, unless HTTP/2 is disabled, which detects dead connections
// by pings.
func (l *links) transport(tc *transport.Config, dial connrotation.DialFunc) (*http.Transport, error) {
	tlsConfig, err := transport.TLSConfigFor(tc)
	if err != nil {
		return nil, err
	}
	proxy := http.ProxyFromEnvironment
	if tc.Proxy != nil {
		proxy = tc.Proxy
	}
	return &http.Transport{
		Proxy:               proxy,
		DialContext:         dial,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: l.timing.answer,
		IdleConnTimeout:     l.timing.idle,
		DisableCompression:  tc.DisableCompression,
		ForceAttemptHTTP2:   len(tc.TLS.NextProtos) == 0 || slices.Contains(tc.TLS.NextProtos, "h2"),
		HTTP2:               &http.HTTP2Config{SendPingTimeout: l.timing.ping, PingTimeout: l.timing.pong},
	}, nil
}

var errLinkClosed = errors.New("the connection to the API server was closed")

// newLink returns a link whose connections are made by the configured dialer, if there is one.
func newLink(own *transport.DialHolder) *link {
	connect := (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	if own != nil {
		connect = own.Dial
	}
	k := &link{dialer: connrotation.NewDialer(connect)}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// dial makes a connection that ends with the link at the latest.
func (k *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	conn, err := k.dialer.DialContext(ctx, network, address)
	if err == nil && k.ctx.Err() != nil {
		_ = conn.Close()
		return nil, errLinkClosed
	}
	return conn, err
}

// close closes all connections, and cancels dials, whatever their users do: if the server does not
// answer, a canceled request alone leaves its connection open.
func (k *link) close() {
	k.cancel()
	k.dialer.CloseAll()
}

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
