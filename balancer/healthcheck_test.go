package balancer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/health" // the health check of clients
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

const (
	serving    = healthpb.HealthCheckResponse_SERVING
	notServing = healthpb.HealthCheckResponse_NOT_SERVING
)

// checked connects with gRPC's health check.
func checked(t *testing.T, servers []*server, change ...func(*balancer.Options)) *client {
	t.Helper()
	config := `{"loadBalancingConfig":[{"quorate_round_robin":{}}],"healthCheckConfig":{"serviceName":"shop"}}`
	return connectBy(t, roundRobin, servers, []grpc.DialOption{grpc.WithDefaultServiceConfig(config)}, change...)
}

func (s *server) says(status healthpb.HealthCheckResponse_ServingStatus) {
	s.status.Store(int32(status))
}

func TestServerThatSaysNotServingGetsNoCalls(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		servers[0].says(notServing)
		c := checked(t, servers)
		l := c.load(2, 60*time.Millisecond, time.Second, false)
		time.Sleep(5 * time.Second)
		at := servers[0]
		assert.Zero(t, at.calls.Load(), "not even before it was asked")
		assert.Equal(t, health.NotServing, c.is(at))
		assert.Len(t, at.connections(), 1, "it stays connected")
		assert.Zero(t, c.probes.Load(), "it says itself when it serves again")
		for range 2 {
			at.says(serving)
			time.Sleep(100 * time.Millisecond)
			assert.Greater(t, at.callsIn(time.Second), int64(6))
			assert.Equal(t, health.Serving, c.is(at))
			s := c.open(balancer.Streams, c.endpoint(at))

			at.says(notServing)
			time.Sleep(100 * time.Millisecond)
			assert.Zero(t, at.callsIn(20*time.Second))
			assert.Equal(t, health.NotServing, c.is(at), "probes that are answered do not clear it")
			assert.True(t, s.isOpen(), "what is under way goes on")
			s.close()
		}
		assert.Zero(t, failed(l.end()))
		assert.Empty(t, c.events.closedAddresses())
	})
}

func TestServerThatSaysNotServingBeforeItStopsLosesNoCall(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		each(servers, func(s *server) { s.delay.Store(int64(20 * time.Millisecond)) }) // two calls are under way at each
		c := checked(t, servers)
		l := c.load(8, 10*time.Millisecond, time.Second, true)
		for _, s := range servers {
			time.Sleep(time.Second)
			s.says(notServing)
			time.Sleep(200 * time.Millisecond)
			s.kill()
			s.says(serving)
			s.restart()
		}
		time.Sleep(time.Second)
		all := l.end()
		assert.Greater(t, len(all), 1000)
		assert.Zero(t, failed(all))
	})
}

// A lost connection is no statement of the server.
func TestLostConnectionIsNotNotServing(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c := checked(t, servers)
		c.load(4, 50*time.Millisecond, time.Second, false)
		for range 10 {
			time.Sleep(time.Second)
			servers[0].disconnect()
		}
		servers[1].frozen.Shut()
		time.Sleep(5 * time.Second)
		servers[1].frozen.Open()
		time.Sleep(5 * time.Second)
		assert.False(t, c.events.ever(health.NotServing))
		assert.True(t, allServe(c, servers))
	})
}

// As with gRPC's round_robin.
func TestCallsFailOrWaitWhileNoServerServes(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		servers[0].says(notServing)
		c := checked(t, servers)
		waits := make(chan outcome, 1)
		go func() { waits <- c.read() }()
		time.Sleep(time.Second)
		_, err := pb.NewTestServiceClient(c.ClientConn).EmptyCall(t.Context(), &pb.Empty{})
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.ErrorContains(t, err, "NOT_SERVING")
		assert.Empty(t, waits)
		servers[0].says(serving)
		assert.NoError(t, (<-waits).err)
		assert.Equal(t, health.Serving, c.is(servers[0]))
	})
}

// gRPC takes a server without the health service for one that serves.
func TestServerWithoutHealthServiceServes(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		each(servers, func(s *server) { s.unwatched.Store(true) })
		c := checked(t, servers)
		c.reads(10)
		synctest.Wait()
		assert.True(t, allServe(c, servers))
	})
}

func TestServerThatSaysNotServingIsFoundFrozen(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := checked(t, servers)
		c.Connect()
		time.Sleep(10 * time.Millisecond)
		c.load(6, 30*time.Millisecond, time.Second, false)
		time.Sleep(time.Second)
		read := c.starting(1, servers[0], attempt{takes: time.Hour})
		time.Sleep(time.Millisecond)
		servers[0].says(notServing)
		time.Sleep(100 * time.Millisecond)
		servers[0].frozen.Shut()
		o := <-read
		assert.Error(t, o.err)
		assert.Less(t, o.took, 2*time.Minute)
		servers[0].frozen.Open()
	})
}

// The probes of the policy are enough to leave a server on which calls fail.
func TestProbeThatIsNotServedEjects(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := connect(t, `{"quorate_round_robin":{"healthProbe":{}}}`, servers, unprobed)
		c.load(6, 30*time.Millisecond, time.Second, false)
		time.Sleep(time.Second)
		servers[0].fail.Store(&errTimedOut)
		servers[0].says(notServing)
		within(t, time.Second, "left", func() bool { return c.is(servers[0]) == health.NotServing })
		time.Sleep(10 * time.Millisecond)
		assert.Zero(t, servers[0].callsIn(time.Second))
		servers[0].fail.Store(nil)
		servers[0].says(serving)
		within(t, 2*time.Minute, "used", func() bool { return servers[0].callsIn(time.Second) > 0 })
		assert.Empty(t, c.events.closedAddresses())
	})
}
