//go:build experiment

package kuberesolver_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// update is one list that a resolver published.
type update struct {
	endpoints []string // of each: its addresses, joined by |
	at        time.Time
}

// recorder is a channel that keeps what a resolver tells it.
type recorder struct {
	resolver.ClientConn

	mu      sync.Mutex
	updates []update
	errors  []error
	changed chan struct{} // closed and replaced at each change
}

// watch builds a resolver for a target that tells a recorder.
func watch(t *testing.T, b resolver.Builder, target string) *recorder {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	w := &recorder{changed: make(chan struct{})}
	r, err := b.Build(resolver.Target{URL: *u}, w, resolver.BuildOptions{})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return w
}

// UpdateState refuses empty lists, as the policies of grpc do.
func (w *recorder) UpdateState(s resolver.State) error {
	u := update{at: time.Now(), endpoints: endpointsOf(s)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.updates = append(w.updates, u)
	w.announce()
	if len(u.endpoints) == 0 {
		return balancer.ErrBadResolverState
	}
	return nil
}

func (w *recorder) ReportError(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errors = append(w.errors, err)
	w.announce()
}

func (w *recorder) NewAddress(addresses []resolver.Address) {
	_ = w.UpdateState(resolver.State{Addresses: addresses})
}

func (w *recorder) ParseServiceConfig(string) *serviceconfig.ParseResult {
	return &serviceconfig.ParseResult{Err: fmt.Errorf("a recorder has no service config")}
}

func (w *recorder) announce() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// endpointsOf prefers endpoints to addresses, as grpc does.
func endpointsOf(s resolver.State) []string {
	texts := []string{}
	for _, endpoint := range s.Endpoints {
		var addresses []string
		for _, a := range endpoint.Addresses {
			addresses = append(addresses, a.Addr)
		}
		texts = append(texts, strings.Join(addresses, "|"))
	}
	if len(texts) == 0 {
		for _, a := range s.Addresses {
			texts = append(texts, a.Addr)
		}
	}
	return texts
}

// all returns every list so far.
func (w *recorder) all() []update {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.updates)
}

// reported returns every error so far.
func (w *recorder) reported() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.errors)
}

// latest returns the last list, nil before the first.
func (w *recorder) latest() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.updates) == 0 {
		return nil
	}
	return w.updates[len(w.updates)-1].endpoints
}

// wait waits until ok is true of the recorder, at most for d, and reports whether that
// came to be.
func (w *recorder) wait(d time.Duration, ok func() bool) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		if ok() {
			return true
		}
		select {
		case <-changed:
		case <-timeout.C:
			return false
		}
	}
}

// await waits until the last list satisfies ok.
func (w *recorder) await(t *testing.T, what string, ok func([]string) bool) {
	t.Helper()
	if !w.wait(testTimeout, func() bool { latest := w.latest(); return latest != nil && ok(latest) }) {
		require.FailNowf(t, "not seen", "%s: the last list is %.200q, the errors are %.500v", what, w.latest(), w.reported())
	}
}

// awaitSize waits until the last list has n endpoints.
func (w *recorder) awaitSize(t *testing.T, n int) {
	t.Helper()
	w.await(t, fmt.Sprintf("%d endpoints", n), func(list []string) bool { return len(list) == n })
}

// awaitList waits until the last list is this, in any order.
func (w *recorder) awaitList(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	w.await(t, fmt.Sprintf("the endpoints %q", want), func(list []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(list)), want)
	})
}

// awaitError waits for an error that was reported after the first n and holds all texts.
func (w *recorder) awaitError(t *testing.T, n int, texts ...string) {
	t.Helper()
	found := w.wait(testTimeout, func() bool {
		return slices.ContainsFunc(w.reported()[n:], func(err error) bool {
			for _, text := range texts {
				if !strings.Contains(err.Error(), text) {
					return false
				}
			}
			return true
		})
	})
	require.Truef(t, found, "no error with %q, only %.500v", texts, w.reported())
}

// requireAllowed fails if the resolver asked for anything but to watch, which the API server has refused then.
func (w *recorder) requireAllowed(t *testing.T) {
	t.Helper()
	for _, err := range w.reported() {
		require.NotContains(t, err.Error(), "forbidden")
	}
}

// requireSizes fails if a list had another number of endpoints than these.
func (w *recorder) requireSizes(t *testing.T, sizes ...int) {
	t.Helper()
	for i, u := range w.all() {
		require.Containsf(t, sizes, len(u.endpoints), "size of list %d", i)
	}
}
