package kuberesolver_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/resolver/kubernetes"
)

// threeSlices puts 250 endpoints, as they are divided into slices of at most 100.
func (s *scene) threeSlices(t *testing.T) {
	t.Helper()
	s.set(t, s.slice("a", pods(1, 100)...))
	s.set(t, s.slice("b", pods(2, 100)...))
	s.set(t, s.slice("c", pods(3, 50)...))
}

// A change of one slice that changes no endpoint leaves the endpoints of all.
func touchOneSlice(t *testing.T, s *scene) {
	s.threeSlices(t)
	w := s.watch(t)
	w.awaitSize(t, 250)

	touched := s.slice("c", pods(3, 50)...)
	touched.Annotations = map[string]string{"touched": "yes"}
	s.set(t, touched)
	// Changes arrive in order: with this one, the touch has been seen.
	s.set(t, s.slice("a", pods(1, 99)...))
	w.awaitSize(t, 249)
	w.requireSizes(t, 250, 249)
	require.Len(t, w.all(), 2, "a list that is equal to the last one was published")
	require.Equal(t, at(slices.Concat(pods(1, 99), pods(2, 100), pods(3, 50))...), w.latest(), "in the order of addresses")
}

func deleteOneSlice(t *testing.T, s *scene) {
	s.threeSlices(t)
	w := s.watch(t)
	w.awaitSize(t, 250)
	s.delete(t, "c")
	w.awaitList(t, at(append(pods(1, 100), pods(2, 100)...)...)...)
	w.requireSizes(t, 250, 200)
}

// soon shortens the time after which an empty list counts.
func soon(c *kubernetes.Config) { c.MassRemovalDelay = time.Second }

// Zero endpoints are published, and reported as such, in all of their forms: a slice
// without endpoints, one that has no ports either, which is what Kubernetes leaves, and
// no slice.
func scaleToZero(t *testing.T, s *scene) {
	s.set(t, s.slice("a", pods(1, 2)...))
	w := s.watch(t, soon)
	w.awaitSize(t, 2)
	s.set(t, s.slice("a"))
	w.awaitSize(t, 0)
	w.awaitError(t, 0, service, "no endpoints")
	s.set(t, s.slice("a", pods(2, 3)...))
	w.awaitList(t, at(pods(2, 3)...)...)

	before := len(w.reported())
	placeholder := s.slice("a")
	placeholder.Ports = []discoveryv1.EndpointPort{}
	s.set(t, placeholder)
	w.awaitSize(t, 0)
	w.awaitError(t, before, service, "no endpoints")
	s.set(t, s.slice("a", pods(2, 3)...))
	w.awaitList(t, at(pods(2, 3)...)...)

	before = len(w.reported())
	s.delete(t, "a")
	w.awaitSize(t, 0)
	w.awaitError(t, before, service)
	s.set(t, s.slice("b", pods(3, 1)...))
	w.awaitList(t, at(pods(3, 1)...)...)
}

// A service without slices is published as empty at once, and is found when it comes.
func nothingAtFirst(t *testing.T, s *scene) {
	w := s.watch(t)
	w.awaitSize(t, 0)
	w.awaitError(t, 0, service, s.namespace)
	s.set(t, s.slice("a", pods(1, 3)...))
	w.awaitSize(t, 3)
}

// A pod has an address in a slice of each family.
func dualStack(t *testing.T, s *scene) {
	four := s.slice("four", "10.1.0.1", "10.1.0.2")
	six := s.slice("six", "fd00::2", "fd00::1")
	for i, uid := range []types.UID{"pod-1", "pod-2"} {
		four.Endpoints[i].TargetRef = podWith(uid)
		six.Endpoints[1-i].TargetRef = podWith(uid)
	}
	s.set(t, four)
	s.set(t, six)
	w := s.watch(t)
	both := []string{"10.1.0.1:8080|[fd00::1]:8080", "10.1.0.2:8080|[fd00::2]:8080"}
	w.awaitList(t, both...)
	s.set(t, s.slice("other", "10.1.0.3"))
	w.awaitList(t, append(both, "10.1.0.3:8080")...)
	w.requireSizes(t, 2, 3)
}

// Hints are followed as kube-proxy does: only if every endpoint has one, and there is one
// for the zone.
func zoneHints(t *testing.T, s *scene) {
	zone := func(name string) func(*kubernetes.Config) {
		return func(c *kubernetes.Config) { c.Zone = name }
	}
	hint := func(name string) *discoveryv1.EndpointHints {
		return &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: name}}}
	}
	addresses := pods(1, 3)
	slice := s.slice("a", addresses...)
	slice.Endpoints[0].Hints, slice.Endpoints[1].Hints, slice.Endpoints[2].Hints = hint("east"), hint("east"), hint("west")
	s.set(t, slice)
	east, west, north, none := s.watch(t, zone("east")), s.watch(t, zone("west")), s.watch(t, zone("north")), s.watch(t)
	east.awaitList(t, at(addresses[:2]...)...)
	west.awaitList(t, at(addresses[2])...)
	north.awaitList(t, at(addresses...)...)
	none.awaitList(t, at(addresses...)...)

	slice.Endpoints[0].Hints = nil
	s.set(t, slice)
	east.awaitList(t, at(addresses...)...)
	west.awaitList(t, at(addresses...)...)
}

// Pods that are going are used only while there is nothing else, and as long as they
// serve.
func terminatingPods(t *testing.T, s *scene) {
	addresses := pods(1, 2)
	slice := s.slice("a", addresses...)
	s.set(t, slice)
	w := s.watch(t, soon)
	w.awaitList(t, at(addresses...)...)

	slice.Endpoints[0].Conditions = conditions(false, true, true)
	s.set(t, slice)
	w.awaitList(t, at(addresses[1])...)
	slice.Endpoints[1].Conditions = conditions(false, true, true)
	s.set(t, slice)
	w.awaitList(t, at(addresses...)...)
	slice.Endpoints[0].Conditions = conditions(false, false, true)
	s.set(t, slice)
	w.awaitList(t, at(addresses[1])...)
	slice.Endpoints[1].Conditions = conditions(false, false, true)
	s.set(t, slice)
	w.awaitSize(t, 0)
	w.awaitError(t, 0, service, "ready")

	slice = s.slice("a", addresses...)
	slice.Endpoints[0].Conditions = discoveryv1.EndpointConditions{}
	slice.Endpoints[1].Conditions = conditions(false, false, false)
	s.set(t, slice)
	w.awaitList(t, at(addresses[0])...)
}
