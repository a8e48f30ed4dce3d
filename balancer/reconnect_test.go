package balancer_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver/manual"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

func TestLostConnectionsComeBackSpreadWhileOthersServe(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		s := servers[0]
		var clients []*client
		for range 40 {
			clients = append(clients, warm(t, roundRobin, servers))
		}
		s.disconnect()
		before := s.dials.Load()
		var at []int64
		for range 200 {
			time.Sleep(time.Millisecond)
			at = append(at, s.dials.Load()-before)
		}
		assert.EqualValues(t, 40, at[199], "all have reconnected")
		assert.InDelta(t, 20, at[99], 18)
		assert.Less(t, at[9], int64(20))
		time.Sleep(10 * time.Millisecond)
		for _, c := range clients {
			assert.True(t, c.endpoint(s).Ready())
			assert.NoError(t, c.call(t.Context(), attempt{only: c.endpoint(s)}).err)
		}
	})
}

// A network that resets each connection soon, or loses large packets and so makes each silent, costs few attempts to connect,
// also while it does so to all endpoints.
func TestConnectionsThatDoNotLastAreMadeLessOften(t *testing.T) {
	reset := func(_ *client, servers ...*server) { each(servers, (*server).disconnect) }
	silence := func(c *client, servers ...*server) {
		if ep := c.endpoint(servers[0]); ep.Ready() {
			assert.NoError(c.t, c.call(c.t.Context(), attempt{only: ep}).err)
			ep.CloseSilent()
		}
	}
	for name, test := range map[string]struct {
		policy            string
		servers, affected int
		lose              func(*client, ...*server)
		dial              []grpc.DialOption
	}{
		"one is reset": {roundRobin, 3, 1, reset, nil}, "all are": {roundRobin, 3, 3, reset, nil}, "the only one is": {roundRobin, 1, 1, reset, nil},
		"all of many are": {roundRobin, 25, 25, reset, nil}, "the pinned one is": {`{"quorate_pinned":{}}`, 3, 3, reset, nil},
		"one is silent":                      {roundRobin, 3, 1, silence, nil},
		"one is silent, without Credentials": {roundRobin, 3, 1, silence, []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}},
	} {
		subtest(t, name, test.servers, func(t *testing.T, servers []*server) {
			c, s := connectBy(t, test.policy, servers, test.dial), servers[0]
			c.Connect()
			for _, most := range []int{25 + 7*test.servers, 20 + 3*test.servers} {
				before := dials(servers)
				for range 600 {
					time.Sleep(100 * time.Millisecond)
					test.lose(c, servers[:test.affected]...)
				}
				synctest.Wait()
				assert.LessOrEqual(t, dials(servers)-before, int64(most), "in a minute")
			}
			if test.policy != roundRobin {
				return // any of them may be pinned
			}
			if test.servers == 1 {
				_, err := pb.NewTestServiceClient(c).EmptyCall(t.Context(), &pb.Empty{})
				assert.ErrorContains(t, err, "connections are lost as soon as they are made")
			}
			within(t, 18*time.Second, "connected", c.endpoint(s).Ready)

			time.Sleep(time.Second)
			s.disconnect()
			synctest.Wait()
			within(t, 250*time.Millisecond, "connected again", c.endpoint(s).Ready)
		})
	}
}

// Proxies end each connection after so many requests (nginx: 1,000) or for a while, and may announce it before they answer.
func TestConnectionsThatServeAreMadeAgain(t *testing.T) {
	for name, end := range map[string]func(*server){
		"lost after an answer": func(s *server) { time.Sleep(10 * time.Millisecond); s.disconnect() },
		"closed before it": func(s *server) {
			old := s.grpc
			s.restart()
			go old.GracefulStop()
		},
	} {
		subtest(t, name, 3, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers)
			for i := range 60 {
				s := servers[i%3]
				answer := c.starting(1, s, attempt{takes: 10 * time.Millisecond})
				time.Sleep(5 * time.Millisecond)
				end(s)
				require.NoError(t, (<-answer).err)
				time.Sleep(200 * time.Millisecond)
				assert.Equal(t, 3, connections(servers))
			}
		})
	}
}

func TestConnectionComesBackAtOnceIfThereIsNoOther(t *testing.T) {
	withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
		servers[0].disconnect()
		synctest.Wait()
		o := c.read()
		require.NoError(t, o.err)
		assert.Equal(t, usual, o.took)
	})
}

// After 12 s a turn takes 4.2 s at most, and an endpoint has every third one.
func TestOutageEnds(t *testing.T) {
	for back := 1; back <= 3; back++ {
		withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
			each(servers, (*server).kill)
			time.Sleep(12 * time.Second)
			for _, s := range servers {
				assert.Equal(t, health.Dead, c.is(s))
			}
			each(servers[:back], (*server).restart)
			o := c.read()
			require.NoError(t, o.err)
			assert.LessOrEqual(t, o.took, time.Duration(4-back)*4200*time.Millisecond+usual)
			assert.Equal(t, health.Serving, c.is(servers[slices.IndexFunc(servers, func(s *server) bool { return s.addr == o.at.Address() })]))
			time.Sleep(time.Second)
			for _, s := range servers[:back] {
				assert.True(t, c.endpoint(s).Ready(), "one success is enough")
			}
		})
	}
}

// grpcParams are gRPC's default backoff and connect timeout.
var grpcParams = grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 20 * time.Second}

// fleet is how many clients the tests of outages have.
const fleet = 40

// connectFleet connects clients that share nothing: Quorate's, or gRPC's own with the grpcParams.
func connectFleet(t *testing.T, grpcOwn bool, servers []*server) {
	t.Helper()
	for range fleet {
		if !grpcOwn {
			connect(t, roundRobin, servers).Connect()
			continue
		}
		r := manual.NewBuilderWithScheme("test")
		r.InitialState((&client{}).state(servers...))
		cc, err := grpc.NewClient("test:///", grpc.WithResolvers(r), grpc.WithContextDialer(dialer(servers)),
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(grpcParams),
			grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
		require.NoError(t, err)
		t.Cleanup(func() { _ = cc.Close() })
		cc.Connect()
	}
	time.Sleep(time.Second)
}

// attempts are the attempts to connect of a fleet.
type attempts struct {
	outage  []int // until the end of each second of the outage
	busiest int   // in the busiest second
}

// after returns how many there are in the first part of the outage, of the given length.
func (a attempts) after(length time.Duration) int { return a.outage[length/time.Second-1] }

// inOutage returns the attempts while no server can be reached. The busiest second may be one of the 10 s after that.
func inOutage(t *testing.T, n int, length time.Duration, grpcOwn bool, lose, repair func(*server)) (made attempts) {
	t.Helper()
	inBubble(t, n, func(t *testing.T, servers []*server) {
		connectFleet(t, grpcOwn, servers)
		second := func() int {
			start := dials(servers)
			time.Sleep(time.Second)
			n := int(dials(servers) - start)
			made.busiest = max(made.busiest, n)
			return n
		}
		require.Positive(t, dials(servers))
		each(servers, lose)
		sum := 0
		for range int(length / time.Second) {
			sum += second()
			made.outage = append(made.outage, sum)
		}
		each(servers, repair)
		for range 10 {
			second()
		}
	})
	return made
}

// A fleet without any server makes no more attempts to connect than gRPC's own clients would: in
// all, in any second, and when the servers are back.
func TestSimulatedAttemptsInAnOutage(t *testing.T) {
	for name, fault := range map[string]struct{ lose, repair func(*server) }{
		"refused": {(*server).kill, (*server).restart},
		"failed handshakes": {
			func(s *server) { s.hangsUp.Store(true); s.disconnect() }, func(s *server) { s.hangsUp.Store(false) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			const longest = 2 * time.Minute
			theirs := inOutage(t, 3, longest, true, fault.lose, fault.repair)
			ours, short := inOutage(t, 3, longest, false, fault.lose, fault.repair), inOutage(t, 3, 12*time.Second, false, fault.lose, fault.repair)
			t.Logf("at most %d and %d in a second; gRPC's own: %d", ours.busiest, short.busiest, theirs.busiest)
			assert.LessOrEqual(t, max(ours.busiest, short.busiest), theirs.busiest)
			for _, length := range []time.Duration{12 * time.Second, 30 * time.Second, longest} {
				t.Logf("in %v %d; gRPC's own: %d", length, ours.after(length), theirs.after(length))
				assert.LessOrEqual(t, ours.after(length), theirs.after(length)*21/20, "each varies by two or three percent")
			}
		})
	}
}

// Where nothing answers, an endpoint is not tried again before an attempt has timed out.
func TestAttemptsAreNotDoubled(t *testing.T) {
	made := inOutage(t, 3, 2*time.Minute, false, func(s *server) { s.blackhole.Shut(); s.disconnect() }, func(s *server) { s.blackhole.Open() })
	assert.LessOrEqual(t, made.after(2*time.Minute), 3*fleet*int(2*time.Minute/grpcParams.MinConnectTimeout))
}

// With gRPC's own parameters, the policy makes no more attempts than gRPC's backoff admits.
func TestBackoffOfGRPCIsALowerBound(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		params := grpcParams
		params.Backoff.MaxDelay = time.Minute
		c := connectBy(t, roundRobin, servers, []grpc.DialOption{grpc.WithConnectParams(params)})
		c.warm()
		servers[0].kill()
		time.Sleep(10 * time.Minute)
		before := servers[0].dials.Load()
		time.Sleep(10 * time.Minute)
		assert.LessOrEqual(t, servers[0].dials.Load()-before, int64(13), "once a minute")
		servers[0].restart()
		assert.NoError(t, c.read().err)
	})
}

// While an endpoint is connected, others are tried seldom until one of them reconnects.
func TestReconnectEndsTheBackoffOfOthers(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		servers[0].kill()
		servers[1].kill()
		time.Sleep(10 * time.Minute)
		before := servers[0].dials.Load()
		time.Sleep(5 * time.Minute)
		assert.LessOrEqual(t, servers[0].dials.Load()-before, int64(8), "37.5 to 60 s")
		servers[0].restart()
		servers[1].restart()
		within(t, time.Minute, "one", func() bool { return c.endpoint(servers[0]).Ready() || c.endpoint(servers[1]).Ready() })
		// The other one is tried again within 0.2 s, and 0.8 s after its latest attempt at the earliest.
		within(t, 810*time.Millisecond, "both", func() bool { return c.endpoint(servers[0]).Ready() && c.endpoint(servers[1]).Ready() })
	})
}

// An endpoint that was unreachable for long is tried again as soon as no other serves.
func TestLongDeadEndpointIsTriedWhenTheOthersFail(t *testing.T) {
	for name, lose := range map[string]func(*server){
		"the others die":            (*server).kill,
		"the others have no leader": func(s *server) { s.fail.Store(&errNoLeader) },
	} {
		subtest(t, name, 3, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers)
			servers[0].kill()
			time.Sleep(5 * time.Minute)
			servers[0].restart()
			each(servers[1:], lose)
			c.load(3, 20*time.Millisecond, 10*time.Second, false)
			within(t, 5*time.Second, "connected", c.endpoint(servers[0]).Ready)
		})
	}
}

// An endpoint that comes and goes has others tried, but never twice within 0.8 s.
func TestFlappingEndpointCausesFewAttemptsAtOthers(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		flaps, dead := servers[0], servers[1]
		dead.kill()
		most := int64(0)
		for range 300 {
			before := dead.dials.Load()
			flaps.kill()
			time.Sleep(200 * time.Millisecond)
			flaps.restart()
			time.Sleep(590 * time.Millisecond)
			most = max(most, dead.dials.Load()-before)
		}
		assert.LessOrEqual(t, most, int64(1))
		assert.NoError(t, c.read().err)
	})
}

func TestRestartedEndpointServesAfterAProbe(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		c.load(2, 20*time.Millisecond, time.Second, true)
		s := servers[0]
		s.kill()
		time.Sleep(5 * time.Second)
		assert.Equal(t, health.Dead, c.is(s))
		assert.True(t, c.endpoint(s).Unreachable())
		s.stalled.Shut() // it accepts connections before it serves
		s.restart()
		within(t, 10*time.Second, "connected", func() bool { return c.endpoint(s).Ready() })
		calls := s.calls.Load()
		time.Sleep(5 * time.Second)
		assert.NotEqual(t, health.Serving, c.is(s))
		assert.Equal(t, calls, s.calls.Load(), "it gets no calls")
		s.stalled.Open()
		within(t, 11*time.Second, "serving", func() bool { return c.is(s) == health.Serving })
	})
}

func TestCallsWaitForAConnection(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		servers[0].kill()
		c := connect(t, roundRobin, servers)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a := new(balancer.Attempt)
		require.Error(t, aRead.send(balancer.WithAttempt(ctx, a), c))
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		assert.False(t, a.MaySent())
		servers[0].restart()
		o := c.read()
		assert.NoError(t, o.err)
		assert.LessOrEqual(t, o.took, 3*time.Second+usual)
	})
}

// What faults cost 10,000 clients that share nothing, with two calls a second each: attempts to connect, and
// probes. Twelve seconds of the fault, and eighteen after it, count.
func TestSimulatedFleetInFaults(t *testing.T) {
	const (
		sample     = 10     // clients that share nothing
		population = 10_000 // the clients that they stand for
		interval   = 500 * time.Millisecond
	)
	freeze := func(s *server) { s.frozen.Shut() }
	thaw := func(s *server) { s.frozen.Open() }
	swallow := func(s *server) { s.frozen.Shut(); s.blackhole.Shut() }
	carry := func(s *server) { s.blackhole.Open(); s.frozen.Open() }
	hangUp := func(s *server) { s.hangsUp.Store(true); s.disconnect() }
	answerAgain := func(s *server) { s.hangsUp.Store(false) }
	nothing := func(*server) {}
	toggle := func(every time.Duration) func([]*server) {
		return func(servers []*server) {
			for end := time.Now().Add(12 * time.Second); time.Now().Before(end); time.Sleep(every) {
				servers[0].frozen.Shut()
				time.Sleep(min(every, 700*time.Millisecond))
				servers[0].frozen.Open()
			}
		}
	}
	during := func(n int, begin, end func(*server)) func([]*server) { // at n of the servers
		return func(servers []*server) {
			each(servers[:n], begin)
			time.Sleep(12 * time.Second)
			each(servers[:n], end)
		}
	}
	for name, test := range map[string]struct {
		servers int
		fault   func([]*server)
		dials   float64 // the most that a client dials
		busiest float64 // the most that a client dials in a second
	}{
		"one is frozen":         {3, during(1, freeze, thaw), 2, 1},
		"two of three frozen":   {3, during(2, freeze, thaw), 4, 2},
		"all frozen":            {3, during(3, freeze, thaw), 6, 1},
		"the only one frozen":   {1, during(1, freeze, thaw), 6, 1},
		"one pauses":            {3, toggle(2300 * time.Millisecond), 2, 1},
		"one flaps":             {3, toggle(2 * time.Second), 6, 1},
		"all flows forgotten":   {3, during(3, forget, nothing), 4, 2},
		"the only flow is lost": {1, during(1, forget, nothing), 2, 1},
		"a flow is forgotten":   {3, during(1, forget, nothing), 2, 1},
		"all is swallowed":      {3, during(3, swallow, carry), 40, 3},
		"all refuse":            {3, during(3, (*server).kill, (*server).restart), 16, 6},
		"failed handshakes":     {3, during(3, hangUp, answerAgain), 16, 6},
	} {
		subtest(t, name, test.servers, func(t *testing.T, servers []*server) {
			var clients []*client
			for range sample {
				c := warm(t, roundRobin, servers)
				c.load(1, interval, 30*time.Second, false)
				clients = append(clients, c)
			}
			time.Sleep(time.Second)
			dialed, probed := dials(servers), probesOf(clients)
			go test.fault(servers)
			var busiest int64
			for range 30 {
				before := dials(servers)
				time.Sleep(time.Second)
				busiest = max(busiest, dials(servers)-before)
			}
			synctest.Wait()
			dialed, probed = dials(servers)-dialed, probesOf(clients)-probed
			const scale = population / sample
			t.Logf("attempts to connect: %d, %d in the busiest second; probes: %d", dialed*scale, busiest*scale, probed*scale)
			assert.LessOrEqual(t, float64(dialed)/sample, test.dials, "attempts to connect")
			assert.LessOrEqual(t, float64(busiest)/sample, test.busiest, "attempts in the busiest second")
			calls := 30 * time.Second / interval
			assert.LessOrEqual(t, float64(probed)/sample, 10+30*0.25+0.02*float64(calls), "probes: the budget")
			for _, c := range clients { // a read may be cut with a connection whose flow was forgotten
				within(t, time.Minute, "all serve", func() bool { return allServe(c, servers) })
				within(t, time.Minute, "reads are answered", func() bool { return c.read().err == nil })
			}
		})
	}
}
