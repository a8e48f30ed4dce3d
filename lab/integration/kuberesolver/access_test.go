package kuberesolver_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The resolver never does more than the manifest allows, nor needs more.
func manifestSuffices(t *testing.T, s *scene) {
	require.Equal(t, []string{"watch"}, allowedVerbs(t, roleManifest))
	s.threeSlices(t)
	w := s.watch(t)
	w.awaitSize(t, 250)
	s.hangUp()
	s.delete(t, "a")
	w.awaitSize(t, 150)
	require.Equal(t, []string{"watch"}, s.wire.seen())
}

// So it is with the manifest for all namespaces.
func clusterManifestSuffices(t *testing.T, s *scene) {
	require.Equal(t, []string{"watch"}, allowedVerbs(t, clusterManifest))
	s.config = s.admitEverywhere(t)
	s.config.WrapTransport = s.wire.wrap
	s.set(t, s.slice("a", pods(1, 1)...))
	w := s.watch(t)
	w.awaitSize(t, 1)
	require.Equal(t, []string{"watch"}, s.wire.seen())
}

// Without the role, calls of a channel that has a list go on, and calls of one that has
// none fail with an error that says which permission is missing. With the role both work.
func roleRemoved(t *testing.T, s *scene) {
	addresses := pods(9, 2)
	f := newFleet(t, addresses...)
	s.set(t, s.slice("a", addresses[0]))
	w, old := s.watch(t), f.connect(t, s.builder(t), s.target())
	w.awaitSize(t, 1)
	mustCall(t, old)

	s.revoke(t, s.namespace)
	s.hangUp()
	missing := []string{"permission", "forbidden", "watch", "endpointslices", s.namespace}
	w.awaitError(t, 0, missing...)
	require.Equal(t, at(addresses[0])[0], mustCall(t, old))
	fresh := f.connect(t, s.builder(t), s.target())
	_, err := call(within(t, patience), fresh)
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	for _, text := range missing {
		require.ErrorContains(t, err, text)
	}
	t.Logf("without the role: %v", err)

	s.grant(t, s.namespace)
	require.Equal(t, at(addresses[0])[0], mustCall(t, fresh, grpc.WaitForReady(true)))
	s.set(t, s.slice("a", addresses[1]))
	w.awaitList(t, at(addresses[1])...)
	callUntil(t, old, at(addresses[1])[0])
	callUntil(t, fresh, at(addresses[1])[0])
}

// The token is replaced, and the client learns of it only when the old one is refused.
func newToken(t *testing.T, s *scene) {
	s.set(t, s.slice("a", pods(1, 1)...))
	w := s.watch(t)
	w.awaitSize(t, 1)
	publish := s.rotate(t, s.namespace)
	s.hangUp()
	w.awaitError(t, 0, "credentials", "nauthorized")
	publish()
	s.set(t, s.slice("a", pods(2, 2)...))
	w.awaitList(t, at(pods(2, 2)...)...)
	w.requireSizes(t, 1, 2)
}
