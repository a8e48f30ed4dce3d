package kubernetes

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/resolver/kubernetes/fakeapiserver"
)

const tick = 5 * time.Millisecond

// followed starts a server with one slice, and a channel that has received it.
func followed(t *testing.T, tm timing) (*fakeapiserver.Server, *grpctest.Channel) {
	t.Helper()
	server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
	c := openWith(t, Config{REST: server.RESTConfig()}, tm, "kubernetes:///users.shop")
	c.AwaitAddresses(t, "10.0.0.1:80")
	return server, c
}

func TestWatchEndsOften(t *testing.T) {
	tm := quick()
	tm.steady = 10 * time.Millisecond
	tm.idle = time.Minute // the pauses between watches do not end the connection
	server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
	server.SetWatchDuration(150 * time.Millisecond)
	c := openWith(t, Config{REST: server.RESTConfig(), MaxBackoff: time.Hour}, tm, "kubernetes:///users.shop")
	for i := range 100 {
		host := fmt.Sprintf("10.0.1.%d", i+1)
		update(t, server, slice("users", "a", 80, host))
		c.AwaitAddresses(t, host+":80")
	}
	// With growing pauses, so many watches would exceed the test's timeout.
	require.NoError(t, server.Wait(grpctest.Within(t, testTimeout), "watch", 18))
	_, errs := c.Counts()
	assert.Zero(t, errs, "an ended watch is no error")
	assert.Equal(t, 1, streamedLists(server.Requests()), "a watch resumes where the last one ended")
	assert.Equal(t, 1, server.Connections())
}

// streamedLists returns how many of the requests were answered by a list as the first events of a watch.
func streamedLists(requests []fakeapiserver.Request) (n int) {
	for _, r := range requests {
		if r.Code == http.StatusOK && r.Query.Get("sendInitialEvents") == "true" {
			n++
		}
	}
	return n
}

func TestExpiredHistory(t *testing.T) {
	for name, expire := range map[string]func(*fakeapiserver.Server){
		"while resuming": func(s *fakeapiserver.Server) { s.Compact(); s.EndWatches() },
		"mid-stream":     func(s *fakeapiserver.Server) { s.ExpireWatches() },
	} {
		t.Run(name, func(t *testing.T) {
			server, c := followed(t, quick())
			create(t, server, slice("users", "b", 80, "10.0.0.2"))
			c.AwaitCount(t, 2)
			server.Deny("watch") // the watch misses the deletion
			expire(server)
			require.Eventually(t, func() bool { return server.Watches() == 0 }, testTimeout, tick)
			require.NoError(t, server.Delete("shop", "b"))
			server.Compact()
			_, errs := c.Counts()
			server.Allow("watch")
			c.AwaitAddresses(t, "10.0.0.1:80")
			assert.Equal(t, 2, streamedLists(server.Requests()))
			states, after := c.Received()
			for _, s := range states {
				assert.NotEmpty(t, s.Endpoints, "the list is kept during the outage")
			}
			for _, err := range after[errs:] {
				assert.NotContains(t, err.Error(), "resource version", "expired history is not reported as an error")
			}
		})
	}
}

// Without a list, the channel has the reason, which is not repeated.
func TestFaultsAtFirst(t *testing.T) {
	for name, c := range map[string]struct {
		fault, mend func(t *testing.T, s *fakeapiserver.Server)
		want        []string
	}{
		"it is unreachable": {
			fault: func(_ *testing.T, s *fakeapiserver.Server) { s.Stop() },
			mend:  func(t *testing.T, s *fakeapiserver.Server) { require.NoError(t, s.Restart()) },
			want:  []string{"cannot watch endpointslices", "connection refused"},
		},
		"no permission": {
			fault: func(_ *testing.T, s *fakeapiserver.Server) { s.Deny() },
			mend: func(t *testing.T, s *fakeapiserver.Server) {
				require.NoError(t, s.Wait(grpctest.Within(t, testTimeout), "watch", 4))
				s.Allow("watch")
			},
			want: []string{"no permission to watch endpointslices.discovery.k8s.io", `service "users" in namespace "shop"`, "Role", `cannot watch resource "endpointslices"`},
		},
		"no streamed lists, and no permission to list": {
			fault: func(_ *testing.T, s *fakeapiserver.Server) {
				s.SetWatchList(fakeapiserver.WatchListRefused)
				s.Deny("list")
			},
			mend: func(_ *testing.T, s *fakeapiserver.Server) { s.SetWatchList(fakeapiserver.WatchListServed) }, // it was upgraded
			want: []string{"no permission to list", `grant the verb "list"`, "does not stream lists"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
			c.fault(t, server)
			channel := open(t, server, "kubernetes:///users.shop")
			channel.AwaitError(t, 0, c.want...)
			c.mend(t, server)
			channel.AwaitAddresses(t, "10.0.0.1:80")
			states, errs := channel.Received()
			assert.Len(t, states, 1)
			for i, err := range errs[1:] {
				assert.NotEqual(t, errs[i].Error(), err.Error())
			}
		})
	}
}

// While the API server cannot be asked, the channel keeps its list and has the reason. What changed meanwhile is seen afterwards.
func TestFaultsKeepTheList(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token or CA")
	write := func(t *testing.T, text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	const old, renewed = "old-secret", "new-secret"
	for name, c := range map[string]struct {
		config func(t *testing.T, s *fakeapiserver.Server) *rest.Config
		timing func(tm *timing)
		fault  func(t *testing.T, s *fakeapiserver.Server)
		mend   func(t *testing.T, s *fakeapiserver.Server)
		want   string
	}{
		"it is unreachable": {
			fault: func(_ *testing.T, s *fakeapiserver.Server) { s.Stop() },
			mend:  func(t *testing.T, s *fakeapiserver.Server) { require.NoError(t, s.Restart()) },
			want:  "connection refused",
		},
		"it hangs": {
			timing: func(tm *timing) {
				tm.ping, tm.pong, tm.answer = 300*time.Millisecond, 700*time.Millisecond, 500*time.Millisecond
			},
			fault: func(_ *testing.T, s *fakeapiserver.Server) { s.Hang() },
			mend:  func(_ *testing.T, s *fakeapiserver.Server) { s.Resume() },
			want:  "did not answer in time",
		},
		"the permission is lost": {
			fault: func(_ *testing.T, s *fakeapiserver.Server) { s.Deny(); s.EndWatches() },
			mend:  func(_ *testing.T, s *fakeapiserver.Server) { s.Allow("watch") },
			want:  "no permission to watch",
		},
		"another token": {
			config: func(t *testing.T, s *fakeapiserver.Server) *rest.Config {
				s.SetTokens(old)
				write(t, old)
				config := s.RESTConfig()
				config.BearerTokenFile = file
				return config
			},
			fault: func(_ *testing.T, s *fakeapiserver.Server) { s.SetTokens(renewed); s.EndWatches() },
			mend:  func(t *testing.T, _ *fakeapiserver.Server) { write(t, renewed) },
			want:  "does not accept the credentials",
		},
		"another CA": {
			config: func(t *testing.T, s *fakeapiserver.Server) *rest.Config {
				write(t, string(s.CAData()))
				return &rest.Config{Host: s.URL(), TLSClientConfig: rest.TLSClientConfig{CAFile: file}}
			},
			fault: func(t *testing.T, s *fakeapiserver.Server) {
				assert.NoError(t, s.RotateCA())
				s.BreakConnections()
			},
			mend: func(t *testing.T, s *fakeapiserver.Server) { write(t, string(s.CAData())) },
			want: "certificate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, tm := startServer(t, slice("users", "a", 80, "10.0.0.1")), quick()
			config := server.RESTConfig()
			if c.config != nil {
				config = c.config(t, server)
			}
			if c.timing != nil {
				c.timing(&tm)
			}
			channel := openWith(t, Config{REST: config}, tm, "kubernetes:///users.shop")
			channel.AwaitAddresses(t, "10.0.0.1:80")
			c.fault(t, server)
			channel.AwaitError(t, 0, "last known endpoints stay in use", c.want)
			update(t, server, slice("users", "a", 80, "10.0.0.2"))
			c.mend(t, server)
			channel.AwaitAddresses(t, "10.0.0.2:80")
			states, errs := channel.Received()
			assert.Len(t, states, 2)
			for _, err := range errs {
				assert.NotContains(t, err.Error(), "secret")
			}
			assert.Zero(t, server.Count("list"))
		})
	}
}

func TestPermissionIsLostWithoutEndpoints(t *testing.T) {
	server := startServer(t)
	c := open(t, server, "kubernetes:///users.shop")
	c.AwaitError(t, 0, "has no EndpointSlices")
	server.Deny()
	server.EndWatches()
	c.AwaitError(t, 0, "has no EndpointSlices", "last known", "no permission to watch")
}

func TestServerWithoutStreamedLists(t *testing.T) {
	for name, mode := range map[string]fakeapiserver.WatchList{"refused": fakeapiserver.WatchListRefused, "unknown": fakeapiserver.WatchListUnknown} {
		t.Run(name, func(t *testing.T) {
			tm := quick()
			tm.listed = 200 * time.Millisecond
			server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
			server.SetWatchList(mode)
			c := openWith(t, Config{REST: server.RESTConfig()}, tm, "kubernetes:///users.shop")
			c.AwaitAddresses(t, "10.0.0.1:80")
			update(t, server, slice("users", "a", 80, "10.0.0.2"))
			c.AwaitAddresses(t, "10.0.0.2:80")
			server.EndWatches()
			update(t, server, slice("users", "a", 80, "10.0.0.3"))
			c.AwaitAddresses(t, "10.0.0.3:80")
			assert.Equal(t, 1, server.Count("list"))
			server.ExpireWatches()
			require.NoError(t, server.Wait(grpctest.Within(t, testTimeout), "list", 2))
			update(t, server, slice("users", "a", 80, "10.0.0.4"))
			c.AwaitAddresses(t, "10.0.0.4:80")
			_, errs := c.Counts()
			assert.Zero(t, errs)
		})
	}
}

// A server without streamed lists continues to send changes.
func TestBusyServerWithoutStreamedLists(t *testing.T) {
	tm := quick()
	tm.listed = 200 * time.Millisecond
	server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
	server.SetWatchList(fakeapiserver.WatchListUnknown)
	stop := make(chan struct{})
	var changes sync.WaitGroup
	defer changes.Wait()
	defer close(stop)
	changes.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(tick):
				_, err := server.Update(slice("users", "a", 80, "10.0.0.1"))
				assert.NoError(t, err)
			}
		}
	})
	c := openWith(t, Config{REST: server.RESTConfig()}, tm, "kubernetes:///users.shop")
	c.AwaitAddresses(t, "10.0.0.1:80")
}

// Only the bookmark ends a streamed list, whatever annotations a slice has.
func TestSliceThatLooksLikeEndOfList(t *testing.T) {
	odd := slice("users", "a", 80, "10.0.0.1")
	odd.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	server := startServer(t, odd, slice("users", "b", 80, "10.0.0.2"))
	c := open(t, server, "kubernetes:///users.shop")
	c.AwaitAddresses(t, "10.0.0.1:80", "10.0.0.2:80")
	states, _ := c.Counts()
	assert.Equal(t, 1, states)
}

func TestCloseWhileServerHangs(t *testing.T) {
	tm := defaultTiming()
	tm.answer, tm.ping = time.Hour, time.Hour // only Close ends requests
	server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
	b := newTestBuilder(t, Config{REST: server.RESTConfig()}, tm)
	following, r := grpctest.Resolve(t, b, "kubernetes:///users.shop")
	following.AwaitAddresses(t, "10.0.0.1:80")
	server.Hang()
	other := newTestBuilder(t, Config{REST: server.RESTConfig()}, tm)
	_, q := grpctest.Resolve(t, other, "kubernetes:///users.shop")
	require.Eventually(t, func() bool { return server.Connections() == 2 }, testTimeout, tick)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.Close()
		q.Close()
	}()
	require.NoError(t, pause.Until(grpctest.Within(t, testTimeout), closed, time.Hour), "Close waits for a server that hangs")
	assert.Nil(t, b.links.current)
}

func TestSilentWatchIsMadeAgain(t *testing.T) {
	tm := quick()
	tm.silence, tm.steady = 300*time.Millisecond, 100*time.Millisecond
	server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
	server.SetBookmarkInterval(0)
	c := openWith(t, Config{REST: server.RESTConfig()}, tm, "kubernetes:///users.shop")
	require.NoError(t, server.Wait(grpctest.Within(t, testTimeout), "watch", 3))
	requests := server.Requests()
	assert.Equal(t, len(requests), streamedLists(requests), "the list is requested anew")
	update(t, server, slice("users", "a", 80, "10.0.0.2"))
	c.AwaitAddresses(t, "10.0.0.2:80")
	states, errs := c.Counts()
	assert.Equal(t, 2, states)
	assert.Zero(t, errs)
}

func TestBookmarksKeepWatchAlive(t *testing.T) {
	tm := quick()
	tm.silence = 500 * time.Millisecond
	server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
	server.SetBookmarkInterval(20 * time.Millisecond)
	c := openWith(t, Config{REST: server.RESTConfig()}, tm, "kubernetes:///users.shop")
	c.AwaitAddresses(t, "10.0.0.1:80")
	// A machine that stalls long enough can exceed the limit, but not every time.
	deadline := time.Now().Add(testTimeout)
	for before := -1; before != server.Count("watch"); {
		require.True(t, time.Now().Before(deadline), "no watch outlasts the allowed silence")
		before = server.Count("watch")
		time.Sleep(3 * tm.silence)
	}
}

func TestBookmarksAdvanceTheVersionToResumeFrom(t *testing.T) {
	server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
	server.SetBookmarkInterval(20 * time.Millisecond)
	c := open(t, server, "kubernetes:///users.shop")
	c.AwaitAddresses(t, "10.0.0.1:80")
	other := slice("others", "b", 80, "10.0.0.9")
	stored, err := server.Create(other) // the watch receives no event for it
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		server.EndWatches()
		requests := server.Requests()
		return requests[len(requests)-1].Query.Get("resourceVersion") == stored.ResourceVersion
	}, testTimeout, 200*time.Millisecond)
}

// A channel that wakes during an outage of the API server has the builder's last list.
func TestIdleChannelWakesWhileTheAPIServerIsAway(t *testing.T) {
	backend := netip.MustParseAddrPort(grpctest.ServeHealth(t))
	server := startServer(t, slice("users", "a", int32(backend.Port()), backend.Addr().String()))
	conn := connect(t, newTestBuilder(t, Config{REST: server.RESTConfig()}, quick()), "kubernetes:///users.shop", grpc.WithIdleTimeout(100*time.Millisecond))
	_, err := grpctest.Ask(grpctest.Within(t, testTimeout), conn)
	require.NoError(t, err)
	awaitState(t, conn, connectivity.Idle)
	server.Close()
	_, err = grpctest.Ask(grpctest.Within(t, testTimeout), conn)
	require.NoError(t, err)
}

// A builder remembers that the server does not stream lists.
func TestListFirstIsRemembered(t *testing.T) {
	server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
	server.SetWatchList(fakeapiserver.WatchListRefused)
	b := newTestBuilder(t, Config{REST: server.RESTConfig()}, quick())
	for round := range 3 {
		c, r := grpctest.Resolve(t, b, "kubernetes:///users.shop")
		c.AwaitAddresses(t, "10.0.0.1:80")
		require.NoError(t, server.Wait(grpctest.Within(t, testTimeout), "watch", round+2))
		r.Close()
	}
	assert.Equal(t, 4, server.Count("watch"), "one was refused, and one followed each list")
	assert.Equal(t, 3, server.Count("list"))
}

// All endpoints disappear at once, and reappear.
func TestMassRemovalIsDelayed(t *testing.T) {
	pods := slice("users", "a", 80, "10.0.0.1", "10.0.0.2", "10.0.0.3")
	pods.Endpoints[2].Addresses = []string{"10.0.0.3", "10.0.0.4"}
	server := startServer(t, pods)
	c := openWith(t, Config{REST: server.RESTConfig(), MassRemovalDelay: 10 * time.Second}, quick(), "kubernetes:///users.shop")
	c.AwaitAddresses(t, "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80,10.0.0.4:80")
	update(t, server, slice("users", "a", 80, "10.0.0.1", "10.0.0.2", "10.0.0.4"))
	c.AwaitAddresses(t, "10.0.0.1:80", "10.0.0.2:80", "10.0.0.4:80")
	began := time.Now()
	update(t, server, slice("users", "a", 80, "10.0.0.9"))
	c.AwaitAddresses(t, "10.0.0.9:80")
	assert.GreaterOrEqual(t, time.Since(began), 10*time.Second)
	c.AwaitError(t, 0, "most endpoints of service \"users\" in namespace \"shop\" disappeared at once; they stay in use for 10s")
	states, _ := c.Received()
	assert.Equal(t, []string{"10.0.0.9:80", "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80,10.0.0.4:80"}, states[2].List())
}

// Endpoints that terminate, or that hints exclude, are not missing.
func TestIntendedRemovalIsNotDelayed(t *testing.T) {
	pods := slice("users", "a", 80, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6")
	server := startServer(t, pods)
	c := openWith(t, Config{REST: server.RESTConfig(), Zone: "here"}, quick(), "kubernetes:///users.shop")
	c.AwaitCount(t, 6)
	pods = pods.DeepCopy()
	for i, zone := range []string{"here", "here", "else", "else", "else", "else"} {
		pods.Endpoints[i].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
	}
	update(t, server, pods)
	c.AwaitAddresses(t, "10.0.0.1:80", "10.0.0.2:80")
	pods = slice("users", "a", 80, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6")
	update(t, server, pods)
	c.AwaitCount(t, 6)
	pods = pods.DeepCopy()
	for i := range 4 {
		pods.Endpoints[i].Conditions = conditions(new(false), new(false), new(true))
	}
	update(t, server, pods)
	c.AwaitAddresses(t, "10.0.0.5:80", "10.0.0.6:80")
	update(t, server, slice("users", "a", 80, "10.0.0.5", "10.0.0.6", "10.0.0.7"))
	c.AwaitAddresses(t, "10.0.0.5:80", "10.0.0.6:80", "10.0.0.7:80")
	_, errs := c.Received()
	assert.Empty(t, errs)
}

// A channel that opens while most endpoints are missing has the kept ones, and so has one that wakes up when all are
// missing.
func TestMassRemovalIsDelayedForNewChannels(t *testing.T) {
	all := []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"}
	server := startServer(t, slice("users", "a", 80, "10.0.0.1", "10.0.0.2", "10.0.0.3"))
	b := newTestBuilder(t, Config{REST: server.RESTConfig(), MassRemovalDelay: time.Minute}, quick())
	first, r1 := grpctest.Resolve(t, b, "kubernetes:///users.shop")
	first.AwaitAddresses(t, all...)
	update(t, server, slice("users", "a", 80, "10.0.0.1"))
	first.AwaitError(t, 0, "disappeared at once")
	second, r2 := grpctest.Resolve(t, b, "kubernetes:///users.shop")
	second.AwaitCount(t, 3)
	second.AwaitError(t, 0, "disappeared at once")
	r2.Close()
	update(t, server, slice("users", "a", 80, "10.0.0.1", "10.0.0.2", "10.0.0.3"))
	first.AwaitAddresses(t, all...)
	r1.Close()

	update(t, server, slice("users", "a", 80))
	third, r3 := grpctest.Resolve(t, b, "kubernetes:///users.shop")
	defer r3.Close()
	third.AwaitAddresses(t, all...)
	third.AwaitError(t, 0, "disappeared at once")
	for _, c := range []*grpctest.Channel{first, second, third} {
		states, _ := c.Received()
		for _, s := range states {
			assert.NotEmpty(t, s.List())
		}
	}
	// Many changes happened while no channel was open.
	update(t, server, slice("users", "a", 80, "10.0.0.9"))
	third.AwaitAddresses(t, "10.0.0.9:80")
}

// The pauses of an outage do not delay retries after it.
func TestPausesEndWithTheOutage(t *testing.T) {
	f := newSource(serviceKey{}, Config{MaxBackoff: time.Hour}, new(links), memory{})
	for range 20 {
		f.synced = false
		f.delayAfter("watch", apierrors.NewForbidden(schema.GroupResource{}, "", nil))
	}
	f.succeed()
	assert.Zero(t, f.delayAfter("watch", errEnded))
	assert.LessOrEqual(t, f.delayAfter("watch", errEnded), firstPause)
	longest := time.Duration(0)
	for range 30 { // short watches
		f.succeed()
		longest = max(longest, f.delayAfter("watch", errEnded))
	}
	assert.Greater(t, longest, time.Second)
	f.steady = true
	assert.Zero(t, f.delayAfter("watch", errEnded))
}

// A destination has no channel while its service is scaled down for another one.
func TestScaledDownWhileADestinationHasNoChannel(t *testing.T) {
	server := startServer(t, slice("users", "a", 80, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"))
	b := newTestBuilder(t, Config{REST: server.RESTConfig(), MassRemovalDelay: 100 * time.Millisecond}, quick())
	used, r1 := grpctest.Resolve(t, b, "kubernetes:///users.shop")
	defer r1.Close()
	idle, r2 := grpctest.Resolve(t, b, "kubernetes:///users.shop:80")
	idle.AwaitAddresses(t, "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80")
	r2.Close()
	update(t, server, slice("users", "a", 80, "10.0.0.1"))
	used.AwaitAddresses(t, "10.0.0.1:80")
	again, r3 := grpctest.Resolve(t, b, "kubernetes:///users.shop:80")
	defer r3.Close()
	again.AwaitAddresses(t, "10.0.0.1:80")
	states, _ := again.Received()
	assert.Len(t, states, 1)
}

// A destination that had no channel for a while missed nothing if nothing changed.
func TestMassRemovalIsDelayedAfterAChannelIsBack(t *testing.T) {
	all := []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80"}
	server := startServer(t, slice("users", "a", 80, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"))
	b := newTestBuilder(t, Config{REST: server.RESTConfig(), MassRemovalDelay: time.Hour}, quick())
	grpctest.Follow(t, b, "kubernetes:///users.shop").AwaitAddresses(t, all...)
	idle, r := grpctest.Resolve(t, b, "kubernetes:///users.shop:80")
	idle.AwaitAddresses(t, all...)
	r.Close()
	again := grpctest.Follow(t, b, "kubernetes:///users.shop:80")
	again.AwaitAddresses(t, all...)
	update(t, server, slice("users", "a", 80, "10.0.0.1"))
	again.AwaitError(t, 0, "disappeared at once")
	assert.Equal(t, all, again.Latest())
}

// The last list of a service is no list of a destination that is new: what replaces it takes effect at once.
func TestNewDestinationWhileTheAPIServerHangs(t *testing.T) {
	server := startServer(t, slice("users", "a", 80, "10.0.0.1", "10.0.0.2", "10.0.0.3"))
	b := newTestBuilder(t, Config{REST: server.RESTConfig(), MassRemovalDelay: time.Hour}, quick())
	first, r := grpctest.Resolve(t, b, "kubernetes:///users.shop")
	first.AwaitCount(t, 3)
	r.Close()
	server.Hang()
	second := grpctest.Follow(t, b, "kubernetes:///users.shop:81")
	second.AwaitAddresses(t, "10.0.0.1:81", "10.0.0.2:81", "10.0.0.3:81")
	update(t, server, slice("users", "a", 81, "10.0.0.4"))
	server.Resume()
	second.AwaitAddresses(t, "10.0.0.4:81")
}
