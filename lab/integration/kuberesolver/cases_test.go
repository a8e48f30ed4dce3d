//go:build experiment

package kuberesolver_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/resolver/kubernetes"
)

// TestReal runs what depends on the API server, each case in a namespace of its own.
func TestReal(t *testing.T) {
	shared := startAPIServer(t)
	for namespace, test := range map[string]func(*testing.T, *scene){
		"slices":         slicesChange,
		"everywhere":     manifestForAll,
		"history-gone":   historyGone,
		"server-killed":  serverKilled,
		"server-stopped": serverStopped,
		"role-removed":   roleRemoved,
	} {
		t.Run(namespace, func(t *testing.T) { test(t, newScene(t, shared, namespace)) })
	}
}

// threeSlices puts 250 endpoints, as they are divided into slices of at most 100.
func (s *scene) threeSlices(t *testing.T) {
	t.Helper()
	s.set(t, s.slice("a", pods(1, 100)...))
	s.set(t, s.slice("b", pods(2, 100)...))
	s.set(t, s.slice("c", pods(3, 50)...))
}

// A service appears, one of its slices is touched and another deleted, and it is scaled to zero and back, in all forms of zero:
// a slice without endpoints, one that has no ports either, which is what Kubernetes leaves, and no slice. The resolver does no
// more than the manifest allows.
func slicesChange(t *testing.T, s *scene) {
	require.Equal(t, []string{"watch"}, allowedVerbs(t, roleManifest))
	w := s.watch(t, func(c *kubernetes.Config) { c.MassRemovalDelay = time.Second })
	w.AwaitCount(t, 0)
	w.AwaitError(t, 0, service, s.namespace)
	s.threeSlices(t)
	w.AwaitCount(t, 250)

	// A change of one slice that changes no endpoint leaves the endpoints of all.
	before, _ := w.Counts()
	touched := s.slice("c", pods(3, 50)...)
	touched.Annotations = map[string]string{"touched": "yes"}
	s.set(t, touched)
	// Changes arrive in order: with this one, the touch has been seen.
	s.set(t, s.slice("a", pods(1, 99)...))
	w.AwaitCount(t, 249)
	after, _ := w.Counts()
	require.Equal(t, before+1, after, "a list that is equal to the last one was published")
	require.Equal(t, at(slices.Concat(pods(1, 99), pods(2, 100), pods(3, 50))...), w.Latest(), "in the order of addresses")

	s.delete(t, "c")
	s.hangUp()
	w.AwaitAddresses(t, at(slices.Concat(pods(1, 99), pods(2, 100))...)...)
	s.delete(t, "b")
	placeholder := s.slice("a")
	placeholder.Ports = []discoveryv1.EndpointPort{}
	for _, empty := range []func(){
		func() { s.set(t, s.slice("a")) },
		func() { s.set(t, placeholder) },
		func() { s.delete(t, "a") },
	} {
		_, reported := w.Counts()
		empty()
		w.AwaitCount(t, 0)
		w.AwaitError(t, reported, service)
		s.set(t, s.slice("a", pods(2, 3)...))
		w.AwaitAddresses(t, at(pods(2, 3)...)...)
	}
	requireAllowed(t, w)
}

// The manifest for all namespaces suffices as well.
func manifestForAll(t *testing.T, s *scene) {
	require.Equal(t, []string{"watch"}, allowedVerbs(t, clusterManifest))
	s.config = s.admitEverywhere(t)
	s.set(t, s.slice("a", pods(1, 1)...))
	w := s.watch(t)
	w.AwaitCount(t, 1)
	requireAllowed(t, w)
}

// The API server is killed, its history is compacted past the last change that a client
// saw, and it is restarted: it refuses to go on from there.
func historyGone(t *testing.T, s *scene) {
	s.set(t, s.slice("a", pods(1, 2)...))
	w := s.watch(t)
	w.AwaitCount(t, 2)
	require.NoError(t, s.plane.Server().Kill())
	s.compact(t)
	s.restart(t)
	s.set(t, s.slice("b", pods(3, 1)...))
	w.AwaitCount(t, 3)
	requireSizes(t, w, 2, 3)
	requireAllowed(t, w)
}

// inUse is a service of two pods with a channel that makes calls.
type inUse struct {
	fleet
	w      *grpctest.Channel
	conn   *grpc.ClientConn
	beside *calls
	next   string // the pod that replaces both
}

func (s *scene) use(t *testing.T) inUse {
	t.Helper()
	addresses := pods(9, 3)
	f := newFleet(t, addresses...)
	s.set(t, s.slice("a", addresses[:2]...))
	u := inUse{fleet: f, w: s.watch(t), conn: f.connect(t, s.builder(t), s.target()), next: addresses[2]}
	u.w.AwaitCount(t, 2)
	u.beside = keepCalling(t, u.conn)
	return u
}

// follows changes the service, and checks that the channel sees it and that no call has failed.
func (u inUse) follows(t *testing.T, s *scene, what string) {
	t.Helper()
	began := time.Now()
	s.set(t, s.slice("a", u.next))
	u.w.AwaitAddresses(t, at(u.next)...)
	t.Logf("a change is seen %v after %s", time.Since(began).Round(time.Millisecond), what)
	u.callUntil(t, u.conn, at(u.next)[0])
	require.NoError(t, u.beside.end())
	requireSizes(t, u.w, 2, 1)
}

// While the API server is gone, calls go on with what is known, and the channel gets an error.
// What changes afterwards is seen.
func serverKilled(t *testing.T, s *scene) {
	u := s.use(t)
	require.NoError(t, s.plane.Server().Kill())
	u.w.AwaitError(t, 0, service, "last known endpoints stay in use")
	for _, pod := range at(pods(9, 2)...) {
		u.callUntil(t, u.conn, pod)
	}
	s.restart(t)
	u.follows(t, s, "the server is ready again")
}

// noticed is the time after which a client must have found out that the API server
// stands still: several times what the resolver needs by its own settings.
const noticed = 90 * time.Second

// An API server that stands still keeps its connections and answers nothing. Calls go
// on, and what changes afterwards is seen. If it lasts, the channel gets an error, and a new
// one gets an error that says why it cannot begin.
func serverStopped(t *testing.T, s *scene) {
	u := s.use(t)
	require.NoError(t, s.plane.Server().Freeze())
	began := time.Now()
	over := time.After(*stopped)
	if *stopped >= noticed {
		u.w.AwaitError(t, 0, service, "last known endpoints stay in use")
		t.Logf("reported after %v", time.Since(began).Round(time.Millisecond))
		_, err := grpctest.Ask(within(t, testTimeout), u.connect(t, s.builder(t), s.target()))
		require.ErrorContains(t, err, "endpointslices")
	}
	<-over
	require.NoError(t, s.plane.Server().Continue())
	u.follows(t, s, "the server wakes")
}

// Without the role, calls of a channel that has a list go on, and calls of one that has
// none fail with an error that says which permission is missing. With the role both work.
func roleRemoved(t *testing.T, s *scene) {
	addresses := pods(9, 2)
	first, second := at(addresses...)[0], at(addresses...)[1]
	f := newFleet(t, addresses...)
	s.set(t, s.slice("a", addresses[0]))
	w, old := s.watch(t), f.connect(t, s.builder(t), s.target())
	w.AwaitCount(t, 1)
	mustCall(t, old)

	s.revoke(t)
	s.hangUp()
	missing := []string{"permission", "forbidden", "watch", "endpointslices", s.namespace}
	w.AwaitError(t, 0, missing...)
	require.Equal(t, f[first], mustCall(t, old))
	fresh := f.connect(t, s.builder(t), s.target())
	_, err := grpctest.Ask(within(t, testTimeout), fresh)
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	for _, text := range missing {
		require.ErrorContains(t, err, text)
	}
	t.Logf("without the role: %v", err)

	s.grant(t)
	require.Equal(t, f[first], mustCall(t, fresh, grpc.WaitForReady(true)))
	s.set(t, s.slice("a", addresses[1]))
	w.AwaitAddresses(t, second)
	f.callUntil(t, old, second)
	f.callUntil(t, fresh, second)
}
