//go:build experiment

package kuberesolver_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sercand/kuberesolver/v6"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/resolver/kubernetes"
)

// settled is how long a resolver may take to arrive at the right list. After that the list
// that it has counts.
const settled = 5 * time.Second

// away is how long the API server is gone.
const away = 10 * time.Second

// finding is what one resolver made of the cases that both can take part in.
type finding struct {
	AtFirst, Touched, Deleted, ScaledToZero int           // endpoints
	Families                                []string      // every list, its endpoints joined by a space
	Delay                                   time.Duration // of a change until it is seen, in the median
	AfterRestart                            time.Duration // 0: not seen
	Refused                                 string        // the error of a call without the role
	RefusedAfter                            time.Duration
}

// TestBesideKuberesolver runs the same steps with kuberesolver v6.0.1, on the same API
// server, and logs what both made of them. Only ours is checked.
func TestBesideKuberesolver(t *testing.T) {
	if testing.Short() {
		t.Skip("a comparison, with waits for what does not come")
	}
	shared := startAPIServer(t)
	ours := find(t, newScene(t, shared, "ours"), func(s *scene) resolver.Builder {
		return s.builder(t, func(c *kubernetes.Config) { c.MassRemovalDelay = time.Second })
	})
	theirs := find(t, newScene(t, shared, "theirs"), func(s *scene) resolver.Builder {
		return kuberesolver.NewBuilder(newKubeClient(t, s.config), "kubernetes")
	})
	t.Logf("quorate: %+v", ours)
	t.Logf("kuberesolver v6.0.1: %+v", theirs)

	require.Equal(t, []int{250, 250, 200, 0}, []int{ours.AtFirst, ours.Touched, ours.Deleted, ours.ScaledToZero})
	require.Equal(t, []string{"10.1.0.1:8080,[fd00::1]:8080"}, ours.Families)
	require.NotZero(t, ours.AfterRestart)
	require.Contains(t, ours.Refused, "forbidden")
}

// find runs the steps with one resolver.
func find(t *testing.T, s *scene, newBuilder func(*scene) resolver.Builder) finding {
	t.Helper()
	var f finding
	s.threeSlices(t)
	w := grpctest.Follow(t, newBuilder(s), s.target())
	f.AtFirst = settle(w, 250)
	touched := s.slice("c", pods(3, 50)...)
	touched.Annotations = map[string]string{"touched": "yes"}
	s.set(t, touched)
	// With no change to wait for, an answer that is right must stay so.
	w.Wait(settled, func() bool { return len(w.Latest()) != 250 })
	f.Touched = len(w.Latest())
	s.delete(t, "c")
	f.Deleted = settle(w, 200)
	s.set(t, s.slice("a"))
	s.set(t, s.slice("b"))
	f.ScaledToZero = settle(w, 0)
	s.delete(t, "a")
	s.delete(t, "b")

	f.Families = s.findFamilies(t, newBuilder(s))
	f.Delay = medianDelay(t, s, w)
	f.AfterRestart = s.findRestart(t, w)
	f.Refused, f.RefusedAfter = s.findRefusal(t, newBuilder(s))
	return f
}

// settle returns the number of endpoints when it is the wanted one, or has had enough
// time to be.
func settle(w *grpctest.Channel, want int) int {
	w.Wait(settled, func() bool { latest := w.Latest(); return latest != nil && len(latest) == want })
	return len(w.Latest())
}

// findFamilies returns every list that is published for one pod with an address of each
// family.
func (s *scene) findFamilies(t *testing.T, b resolver.Builder) []string {
	t.Helper()
	addresses := map[string]string{"four": "10.1.0.1", "six": "fd00::1"}
	for name, address := range addresses {
		slice := s.slice(name, address)
		slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", UID: "pod-1"}
		s.set(t, slice)
	}
	w := grpctest.Follow(t, b, s.target())
	w.Wait(time.Second, func() bool { lists, _ := w.Counts(); return lists >= len(addresses) })
	lists, _ := w.Received()
	for name := range addresses {
		s.delete(t, name)
	}
	texts := make([]string, len(lists))
	for i, u := range lists {
		texts[i] = strings.Join(u.List(), " ")
	}
	return texts
}

// findRestart returns how long after the restart of a server that was unreachable for ten seconds
// a change is seen.
func (s *scene) findRestart(t *testing.T, w *grpctest.Channel) time.Duration {
	t.Helper()
	require.NoError(t, s.plane.Server().Kill())
	time.Sleep(away)
	s.restart(t)
	ready := time.Now()
	address := pods(9, 1)[0]
	s.set(t, s.slice("a", address))
	if !w.Wait(testTimeout, func() bool { return strings.Join(w.Latest(), "") == at(address)[0] }) {
		return 0
	}
	return time.Since(ready)
}

// findRefusal returns what a call of a new channel fails with when the role is missing,
// within the time to settle, and after what time.
func (s *scene) findRefusal(t *testing.T, b resolver.Builder) (string, time.Duration) {
	t.Helper()
	s.revoke(t)
	conn := fleet{}.connect(t, b, s.target())
	began := time.Now()
	_, err := grpctest.Ask(within(t, settled), conn)
	require.Error(t, err)
	return err.Error(), time.Since(began)
}

// medianDelay makes changes, one after the other, and returns how long they take in the median, from the time when the request
// is sent to the time when the resolver publishes it.
func medianDelay(t *testing.T, s *scene, w *grpctest.Channel) time.Duration {
	t.Helper()
	const changes = 61
	var took []time.Duration
	for _, address := range pods(8, changes) {
		sent := time.Now()
		s.set(t, s.slice("a", address))
		w.AwaitAddresses(t, at(address)...)
		all, _ := w.Received()
		took = append(took, all[len(all)-1].At.Sub(sent))
	}
	slices.Sort(took)
	return took[changes/2]
}

// kubeClient is the API server as kuberesolver wants it.
type kubeClient struct {
	*http.Client
	host, token string
}

func newKubeClient(t *testing.T, config *rest.Config) *kubeClient {
	t.Helper()
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	require.NoError(t, err)
	return &kubeClient{Client: &http.Client{Transport: transport}, host: config.Host, token: config.BearerToken}
}

// Host returns the URL of the API server.
func (c *kubeClient) Host() string { return c.host }

// GetRequest returns a request that bears the token.
func (c *kubeClient) GetRequest(url string) (*http.Request, error) {
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	return req, nil
}
