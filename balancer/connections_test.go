package balancer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

func TestHeavyStreamsMoveToAConnectionOfTheirOwn(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		at := servers[0]
		heavy, light := c.open(balancer.Streams, c.endpoint(at)), c.open(balancer.Streams, c.endpoint(at))
		other := c.open(balancer.Streams, c.endpoint(servers[1]))
		at.payload.Store(128 << 10)
		assert.ErrorContains(t, heavy.endsWithin(t, 2*time.Second), "apart from that of calls")
		assert.ErrorContains(t, light.endsWithin(t, time.Millisecond), "apart from that of calls")
		assert.True(t, other.isOpen())
		for range 3 {
			s := c.open(balancer.Streams, nil)
			assert.Len(t, c.server(s.Endpoint()).connections(), 2)
		}
		assert.Equal(t, 4, connections(servers), "streams share one connection, apart from those of calls")
		moved := c.open(balancer.Streams, nil)
		at = c.server(moved.Endpoint())
		at.payload.Store(128 << 10)
		calls, before := at.calls.Load(), moved.heard.Load()
		c.load(3, 20*time.Millisecond, time.Second, false)
		time.Sleep(time.Second)
		assert.True(t, moved.isOpen())
		assert.Greater(t, moved.heard.Load(), before+33)
		assert.Greater(t, at.calls.Load(), calls+16)
		assert.False(t, c.events.ever(health.Suspected, health.Dead))
	})
}

// A stream that was opened again after a failure of the only endpoint avoids that, and moves all the same.
func TestHeavyStreamOfTheOnlyEndpointMoves(t *testing.T) {
	withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
		s := c.open(balancer.Streams, nil)
		s.Avoid = []*balancer.Endpoint{s.Endpoint()}
		servers[0].payload.Store(128 << 10)
		assert.ErrorContains(t, s.endsWithin(t, 2*time.Second), "apart from that of calls")
	})
}

// Streams are not cut before they have a connection to go to, and go on over that of calls if it is lost.
func TestHeavyStreamsGoOnWithoutAConnectionOfTheirOwn(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		refuse := func(is bool) { each(servers, func(s *server) { s.hangsUp.Store(is) }) }
		each(servers, func(s *server) { s.payload.Store(128 << 10); s.every.Store(int64(500 * time.Millisecond)) })
		refuse(true)
		streams := []*stream{c.open(balancer.Streams, c.endpoint(servers[0])), c.open(balancer.Streams, c.endpoint(servers[1]))}
		time.Sleep(30 * time.Second)
		soon, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		third, err := c.tryOpen(soon, balancer.Streams, nil)
		require.NoError(t, err)
		streams = append(streams, third)
		for _, s := range streams {
			require.True(t, s.isOpen(), s.cut)
		}
		assert.LessOrEqual(t, dials(servers), int64(3+3*8), "attempts to connect have pauses")
		refuse(false)
		for _, s := range streams {
			assert.ErrorContains(t, s.endsWithin(t, 30*time.Second), "apart from that of calls")
		}
		moved := c.open(balancer.Streams, nil)
		refuse(true)
		conns := c.server(moved.Endpoint()).connections()
		require.Len(t, conns, 2)
		require.NoError(t, conns[1].Close())
		_ = moved.endsWithin(t, time.Second) // it need not be cut
		again := c.open(balancer.Streams, moved.Endpoint())
		time.Sleep(30 * time.Second)
		assert.True(t, again.isOpen(), again.cut)
		assert.False(t, c.events.ever(health.Dead))
	})
}

// Streams of a program that cannot open them again at will.
func TestStreamsOfClassCallsStayThere(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		at := c.endpoint(servers[0])
		heavy := c.open(balancer.Calls, at)
		assert.Zero(t, at.InFlight(), "it is no call")
		servers[0].payload.Store(128 << 10)
		time.Sleep(5 * time.Second)
		assert.True(t, heavy.isOpen())
		c.open(balancer.Calls, at)
		assert.Equal(t, 3, connections(servers))
		assert.False(t, c.events.ever(health.Suspected, health.Slow))
		servers[0].payload.Store(1) // a large message that stops halfway is waited for
		time.Sleep(time.Second)
		servers[0].frozen.Shut()
		assert.ErrorContains(t, heavy.endsWithin(t, 1200*time.Millisecond), "others serve")
	})
}

func TestStreamsAreHeavyFromAMebibyteInEightSeconds(t *testing.T) {
	for size, want := range map[int64]int{5 << 9: 1, 3 << 10: 2} { // 50 a second
		withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
			servers[0].payload.Store(size)
			s := c.open(balancer.Streams, nil)
			time.Sleep(20 * time.Second)
			assert.Equal(t, want == 1, s.isOpen())
			c.open(balancer.Streams, nil)
			assert.Equal(t, want, connections(servers), "%d", size)
		})
	}
}

func TestBulkTransfersHaveAConnectionOfTheirOwn(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		first := c.open(balancer.Bulk, nil)
		for range 5 {
			assert.Same(t, first.Endpoint(), c.open(balancer.Bulk, nil).Endpoint(), "they share it")
		}
		assert.Equal(t, 4, connections(servers))
		assert.NotSame(t, first.Endpoint(), c.open(balancer.Bulk, c.others(first.Endpoint())[0]).Endpoint())
		assert.Equal(t, 5, connections(servers))
	})
}

// Of the connections of an endpoint, only the frozen one is closed: messages on another one are no sign of life of it.
func TestFrozenConnectionIsClosedAlone(t *testing.T) {
	for name, test := range map[string]struct {
		calls   bool // it is that of calls
		payload int64
		every   time.Duration
	}{
		"of calls":                    {true, 0, 20 * time.Millisecond},
		"of calls, beside a busy one": {true, 256 << 10, 200 * time.Millisecond},
		"of streams":                  {false, 0, 20 * time.Millisecond},
	} {
		subtest(t, name, 2, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers)
			at := servers[0]
			at.payload.Store(test.payload)
			at.every.Store(int64(test.every))
			bulk := c.open(balancer.Bulk, c.endpoint(at))
			l := c.load(3, 20*time.Millisecond, time.Hour, false)
			time.Sleep(5 * time.Second)
			conns := at.connections()
			require.Len(t, conns, 2)
			start := time.Now()
			if test.calls {
				conns[0].frozen.Shut()
				write := <-c.starting(1, at, aWrite)
				assert.Error(t, write.cut)
				assert.Less(t, write.took, 2*time.Second)
			} else {
				conns[1].frozen.Shut()
				assert.ErrorContains(t, bulk.endsWithin(t, 2*time.Second), "its connection gives no sign of life")
			}
			time.Sleep(4 * time.Second)
			assert.Equal(t, test.calls, bulk.isOpen())
			assert.Equal(t, health.Serving, c.is(at))
			assert.False(t, c.events.ever(health.Dead))
			assert.Equal(t, []string{"a"}, c.events.closedAddresses())
			assert.Positive(t, at.callsIn(time.Second))
			for _, o := range l.end() {
				if !test.calls || o.began.After(start.Add(time.Second)) {
					assert.NoError(t, o.err)
				}
				assert.Less(t, o.took, 1100*time.Millisecond)
			}
			conns[0].frozen.Open()
			conns[1].frozen.Open()
		})
	}
}

// A stream uses another endpoint if its connection cannot be established.
func TestStreamDoesNotWaitForAConnectionThatHangs(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		each(servers, func(s *server) { s.blackhole.Shut() })
		opened := make(chan *stream)
		go func() {
			s, err := c.tryOpen(context.Background(), balancer.Bulk, nil)
			assert.NoError(t, err)
			opened <- s
		}()
		time.Sleep(100 * time.Millisecond)
		hangs, serves := servers[0], servers[1]
		if serves.dials.Load() > 1 {
			hangs, serves = serves, hangs
		}
		assert.EqualValues(t, 2, hangs.dials.Load())
		assert.EqualValues(t, 1, serves.dials.Load())
		serves.blackhole.Open()
		start := time.Now()
		s := <-opened
		assert.Less(t, time.Since(start), 500*time.Millisecond)
		assert.Equal(t, serves.addr, s.Endpoint().Address())
		synctest.Wait()
		assert.Len(t, c.events.reached(hangs, health.Suspected), 1, "it is probed")
		within(t, 100*time.Millisecond, "serving", func() bool { return c.is(hangs) == health.Serving })
		assert.False(t, c.events.ever(health.Dead), "it serves calls")
		s.close()
	})
}

// Replies wait behind a large message; that is not silence.
func TestLargeMessageIsNoSilence(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		c.load(2, 20*time.Millisecond, time.Hour, false)
		at := servers[0]
		s := c.open(balancer.Streams, c.endpoint(at))
		at.payload.Store(512 << 10)
		at.rate.Store(8 << 10)
		writes := c.starting(3, at, attempt{write: true, takes: 500 * time.Millisecond})
		for range 3 {
			o := <-writes
			assert.NoError(t, o.err)
			assert.Greater(t, o.took, 2*time.Second)
		}
		assert.True(t, s.isOpen())
		assert.False(t, c.events.ever(health.Dead))
		assert.Empty(t, c.events.closedAddresses())
		s.cancel()
		at.rate.Store(0)
		<-s.ended
	})
}

// TestAddressesRace covers an endpoint with two addresses, one of which drops what is sent to it.
func TestAddressesRace(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c := connect(t, `{"quorate_round_robin":{}}`, servers, unprobed)
		a, b := servers[0], servers[1]
		both := resolver.Endpoint{Addresses: []resolver.Address{{Addr: a.addr}, {Addr: b.addr}}}
		c.resolver.InitialState(balancer.WithOptions(resolver.State{Endpoints: []resolver.Endpoint{both}}, &c.options))
		answers := func(s *server, limit time.Duration) {
			t.Helper()
			synctest.Wait()
			o := c.read()
			require.NoError(t, o.err)
			require.Less(t, o.took, limit)
			time.Sleep(time.Second)
			require.Len(t, s.connections(), 1)
			require.Equal(t, 1, connections(servers))
		}
		a.blackhole.Shut()
		answers(b, 300*time.Millisecond)
		require.EqualValues(t, 1, b.conns.Load(), "the connection that has won stays")
		b.kill()
		time.Sleep(time.Second)
		b.restart()
		answers(b, 2*time.Second) // it is tried again beside the other
		a.blackhole.Open()
		b.blackhole.Shut()
		b.disconnect()
		answers(a, 300*time.Millisecond)
		b.blackhole.Open()
		a.kill()
		answers(b, 300*time.Millisecond)
		dials := a.dials.Load() + b.dials.Load()
		a.blackhole.Shut()
		b.blackhole.Shut()
		b.disconnect()
		time.Sleep(time.Minute)
		require.LessOrEqual(t, a.dials.Load()+b.dials.Load()-dials, int64(12), "the addresses are tried every 20 s")
		a.restart()
		a.blackhole.Open()
		dials = a.dials.Load() + b.dials.Load()
		for i := range 200 {
			time.Sleep(300 * time.Millisecond)
			servers[i%2].blackhole.Shut()
			servers[1-i%2].blackhole.Open()
			each(servers, (*server).disconnect)
		}
		require.LessOrEqual(t, a.dials.Load()+b.dials.Load()-dials, int64(30), "connections do not last")
	})
}

func TestLargeCallsGoOnWhileTheirConnectionIsNotMade(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		each(servers, func(s *server) { s.blackhole.Shut() })
		o := c.call(t.Context(), attempt{large: true, shape: "large", deadline: time.Second})
		assert.NoError(t, o.err)
		each(servers, func(s *server) { s.blackhole.Open() })
	})
}

// watching returns a client with a single stream, which had one pause of a second.
func watching(t *testing.T, servers []*server) (*client, *stream) {
	t.Helper()
	c := connect(t, roundRobin, servers)
	s := c.open(balancer.Streams, nil)
	at := c.server(s.Endpoint())
	time.Sleep(20 * time.Second)
	at.quiet.Shut()
	time.Sleep(time.Second)
	at.quiet.Open()
	time.Sleep(3 * time.Second)
	require.Greater(t, s.heard.Load(), int64(1000))
	require.False(t, c.events.ever(health.Suspected))
	return c, s
}

func TestStreamIsCutWithinASecond(t *testing.T) {
	for name, test := range map[string]struct {
		fault  func(*server) *gate
		end    health.State
		closed int // connections
	}{
		"frozen":  {func(s *server) *gate { return &s.frozen }, health.Dead, 1},
		"stalled": {func(s *server) *gate { return &s.stalled }, health.Lagging, 0},
	} {
		subtest(t, name, 3, func(t *testing.T, servers []*server) {
			c, s := watching(t, servers)
			at := c.server(s.Endpoint())
			fault := test.fault(at)
			fault.Shut()
			assert.ErrorContains(t, s.endsWithin(t, time.Second), "endpoint "+at.addr+" is lagging")
			within(t, 500*time.Millisecond, "found", func() bool { return c.is(at) == test.end })
			within(t, time.Second, "closed", func() bool { return len(c.events.closedAddresses()) == test.closed })
			fault.Open()
			within(t, 11*time.Second, "readmitted", func() bool { return c.is(at) == health.Serving })
		})
	}
}

// Calls and probes wait where streams, or long calls, are all that the server allows. It is no sign that these, or the server,
// are frozen.
func TestWorkThatFillsItsConnectionGoesOn(t *testing.T) {
	for what, known := range map[string]int{"streams": 0, "calls": 20, "calls of an unknown length": 0} {
		subtest(t, what, 3, func(t *testing.T, servers []*server) {
			at := servers[0]
			at.kill()
			at.streams = 4
			at.restart()
			at.quiet.Shut()
			c := warm(t, probedRoundRobin, servers, toolkit)
			c.endpoint(at).Learn(pb.TestService_CacheableUnaryCall_FullMethodName, time.Minute, known)
			var streams []*stream
			for what == "streams" && len(streams) < 4 {
				streams = append(streams, c.open(balancer.Calls, c.endpoint(at)))
			}
			calls := c.starting(4-len(streams), at, attempt{takes: 2 * time.Minute, unwatched: true})
			load := c.load(2, 20*time.Millisecond, 2*time.Second, false)
			time.Sleep(time.Minute)
			assert.Empty(t, calls)
			for _, s := range streams {
				assert.True(t, s.isOpen(), s.cut)
			}
			at.frozen.Shut()
			within(t, 4*time.Minute, "calls that take longer than usual end", func() bool { return len(calls) == min(known, 4) })
			assert.Less(t, failed(load.end()), 100, "others serve")
		})
	}
}

// The pause of a stream causes one probe, which shows that the endpoint serves.
func TestStreamWithPausesCostsFewProbes(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c, s := watching(t, servers)
		before, at := c.probes.Load(), c.server(s.Endpoint())
		for range 12 {
			at.quiet.Shut()
			time.Sleep(10 * time.Second)
			at.quiet.Open()
			time.Sleep(10 * time.Second)
		}
		assert.LessOrEqual(t, c.probes.Load()-before, int64(240/4))
		assert.True(t, s.isOpen())
		assert.False(t, c.events.ever(health.Suspected, health.Slow))
	})
}

func TestQuietStreamCostsAProbeInTenSeconds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		each(servers, func(s *server) { s.quiet.Shut() })
		c := connect(t, roundRobin, servers)
		s := c.open(balancer.Streams, nil)
		assert.False(t, s.Quiet())
		time.Sleep(time.Second)
		assert.True(t, s.Quiet())
		time.Sleep(10 * time.Minute)
		assert.True(t, s.Quiet())
		assert.LessOrEqual(t, c.probes.Load(), int64(600/10))
		assert.GreaterOrEqual(t, c.probes.Load(), int64(600/25), "it is checked")
		assert.True(t, s.isOpen())
		assert.False(t, c.events.ever(health.Suspected))
		at := c.server(s.Endpoint())
		at.frozen.Shut()
		assert.Error(t, s.endsWithin(t, 22*time.Second))
		at.frozen.Open()
		time.Sleep(time.Minute)
		probes := c.probes.Load()
		time.Sleep(10 * time.Minute)
		assert.LessOrEqual(t, c.probes.Load(), probes+1, "until it ends")
	})
}

// Quiet streams on many endpoints are checked as often as the budget allows. It is kept for a fault.
func TestFrozenEndpointIsFoundBesideManyQuietStreams(t *testing.T) {
	inBubble(t, 20, func(t *testing.T, servers []*server) {
		each(servers, func(s *server) { s.quiet.Shut() })
		c := warm(t, roundRobin, servers)
		streams := make([]*stream, len(servers))
		for i, s := range servers {
			streams[i] = c.open(balancer.Streams, c.endpoint(s))
		}
		time.Sleep(5 * time.Minute)
		servers[0].frozen.Shut()
		// One check in 4 s is in the budget, and 20 streams are due for one in 10 to 20 s.
		assert.ErrorContains(t, streams[0].endsWithin(t, time.Hour), "endpoint a is")
		within(t, time.Second, "dead", func() bool { return c.is(servers[0]) == health.Dead })
	})
}

func TestStreamOfASingleEndpointIsNotCut(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		c, s := watching(t, servers)
		servers[0].frozen.Shut()
		time.Sleep(time.Minute)
		servers[0].frozen.Open()
		time.Sleep(time.Second)
		servers[0].quiet.Shut()
		time.Sleep(time.Minute)
		assert.True(t, s.isOpen())
		assert.LessOrEqual(t, c.probes.Load(), int64(4+60/7), "one in 7.5 s while it is quiet")
	})
}

func TestStreamWithoutAProberIsNotCut(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c := connect(t, roundRobin, servers, unprobed)
		s := c.open(balancer.Streams, nil)
		time.Sleep(5 * time.Second)
		at := c.server(s.Endpoint())
		at.frozen.Shut()
		within(t, time.Second, "suspected", func() bool { return c.is(at) == health.Suspected })
		time.Sleep(time.Minute)
		at.frozen.Open()
		time.Sleep(time.Second)
		assert.True(t, s.isOpen())
		s.close()
		require.NoError(t, c.call(t.Context(), attempt{only: c.endpoint(at)}).err)
		assert.Equal(t, health.Serving, c.is(at))
	})
}

func TestStreamMovesFromAServerThatShutsDown(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		s := c.open(balancer.Streams, c.endpoint(servers[0]))
		stay := []*stream{c.open(balancer.Bulk, c.endpoint(servers[0])), c.open(balancer.Calls, c.endpoint(servers[0]))}
		call := c.starting(1, servers[0], attempt{takes: 3 * time.Second})
		time.Sleep(time.Second)
		go servers[0].stopGracefully() // returns when all have ended
		assert.Equal(t, codes.Unavailable, status.Code(s.endsWithin(t, 10*time.Millisecond)))
		assert.NoError(t, (<-call).err)
		assert.Empty(t, c.events.closedAddresses())
		for _, s := range stay {
			assert.True(t, s.isOpen(), "it may end in time")
			s.close()
		}
	})
}

// forget makes all connections to the server silent. New ones work.
func forget(s *server) {
	for _, c := range s.connections() {
		c.frozen.Shut()
	}
}

// A NAT forgets all connections of a client: of one endpoint, or of three.
func TestSecondConnectionTakesThePlaceOfASilentOne(t *testing.T) {
	for name, n := range map[string]int{"one endpoint": 1, "three endpoints": 3} {
		subtest(t, name, n, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers)
			st := c.open(balancer.Streams, c.endpoint(servers[0]))
			c.load(6, 20*time.Millisecond, time.Hour, false)
			time.Sleep(5 * time.Second)
			each(servers, forget)
			assert.ErrorContains(t, st.endsWithin(t, 2500*time.Millisecond), "is")
			// The first read may be cut with the silent connection of another endpoint.
			within(t, time.Second, "reads are answered", func() bool { return c.read().err == nil })
			within(t, time.Minute, "all serve", func() bool { return allServe(c, servers) })
			assert.LessOrEqual(t, dials(servers), int64(2*n), "a connection each, and one in its place")
		})
	}
}

// A stream goes on over a connection that its server closes. That is no sign of life of the one made after it.
func TestMessagesOnAnOldConnectionHideNoSilence(t *testing.T) {
	withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
		s := servers[0]
		st := c.open(balancer.Calls, nil)
		go s.stopGracefully()
		time.Sleep(50 * time.Millisecond)
		s.restart()
		require.NoError(t, c.read().err)
		require.True(t, st.isOpen())
		all := s.connections()
		all[len(all)-1].frozen.Shut()
		o := c.call(t.Context(), attempt{deadline: time.Minute})
		assert.ErrorContains(t, o.cut, "its connection gives no sign of life")
		assert.NoError(t, c.read().err)
		all[len(all)-1].frozen.Open()
	})
}

// Writes on the silent connection are left alone for as long as TCP may need; new ones are not delayed.
func TestWritesOnAReplacedConnectionMayBeAnswered(t *testing.T) {
	withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
		time.Sleep(time.Second)
		old := servers[0].connections()[0]
		old.frozen.Shut()
		write, read := c.starting(1, servers[0], aWrite), c.starting(1, servers[0], aRead)
		cut := <-read
		assert.ErrorContains(t, cut.cut, "a new one does")
		assert.NoError(t, c.write().err)
		old.frozen.Open()
		assert.NoError(t, (<-write).err)
	})
}

// The silent connection is heard again before the second one has answered: that is closed, and was never counted.
func TestSecondConnectionIsNotCounted(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		table := health.NewTable()
		c := warm(t, roundRobin, servers, func(o *balancer.Options) { o.Table = table })
		entry := table.Acquire("", servers[0].addr)
		defer entry.Release()
		c.load(3, 20*time.Millisecond, time.Hour, false)
		time.Sleep(5 * time.Second)
		forget(servers[0])
		within(t, 5*time.Second, "a second connection", func() bool { return len(servers[0].connections()) == 2 })
		servers[0].connections()[0].frozen.Open()
		within(t, 5*time.Second, "it is closed", func() bool { return len(servers[0].connections()) == 1 })
		assert.Equal(t, 1, entry.Connections())
	})
}

// A server that is frozen, or slow to answer, keeps its connection.
func TestSecondConnectionYieldsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		begin, end func(s *server)
	}{
		"frozen": {func(s *server) { s.frozen.Shut() }, func(s *server) { s.frozen.Open() }},
		"blackhole": {
			func(s *server) { s.blackhole.Shut(); forget(s) },
			func(s *server) {
				for _, c := range s.connections() {
					c.frozen.Open()
				}
				time.Sleep(time.Second)
				s.blackhole.Open()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 3} {
				withClient(t, n, func(t *testing.T, c *client, servers []*server) {
					c.load(3, 60*time.Millisecond, time.Hour, false)
					time.Sleep(5 * time.Second)
					before := dials(servers)
					each(servers, test.begin)
					time.Sleep(8 * time.Second)
					each(servers, test.end)
					within(t, time.Second, "served", func() bool { return c.read().err == nil })
					time.Sleep(10 * time.Second)
					synctest.Wait()
					assert.Empty(t, c.events.closedAddresses())
					assert.LessOrEqual(t, dials(servers)-before, int64(6))
					for _, s := range servers {
						assert.Len(t, s.connections(), 1)
					}
				})
			}
		})
	}
}

// A server that has too much to do answers late again and again.
func TestSimulatedSecondConnectionsToASlowServerAreFew(t *testing.T) {
	withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
		c.load(3, 60*time.Millisecond, time.Hour, false)
		before := dials(servers)
		for range 20 {
			servers[0].frozen.Shut()
			time.Sleep(3 * time.Second)
			servers[0].frozen.Open()
			time.Sleep(7 * time.Second)
		}
		assert.LessOrEqual(t, dials(servers)-before, int64(13))
	})
}

// swallow makes the network to all servers lose everything. heal ends that for new connections; what was sent on
// the others is repeated when they are healed, too.
func swallow(servers []*server) (heal, healOld func()) {
	each(servers, func(s *server) { s.blackhole.Shut() })
	var old []*serverConn
	for _, s := range servers {
		old = append(old, s.connections()...)
	}
	each(servers, forget)
	heal = func() {
		each(servers, func(s *server) { s.blackhole.Open() })
	}
	healOld = func() {
		for _, c := range old {
			c.frozen.Open()
		}
	}
	return heal, healOld
}

// address gives servers IP addresses.
func address(servers []*server) {
	for i, s := range servers {
		s.addr = fmt.Sprintf("192.0.2.%d:2379", i+1)
	}
}

// TCP repeats what was sent during an outage seconds after it. New connections show the end of the outage,
// and writes that began in it were not sent over the old ones.
func TestWritesOfAnOutageOfTheNetworkGoOutAtItsEnd(t *testing.T) {
	for _, n := range []int{1, 3} {
		inBubble(t, n, func(t *testing.T, servers []*server) {
			address(servers)
			c := warm(t, roundRobin, servers)
			c.load(3, 20*time.Millisecond, 10*time.Second, false)
			time.Sleep(5 * time.Second)
			before := dials(servers)
			heal, _ := swallow(servers)
			writes := c.load(3, 20*time.Millisecond, time.Second, true)
			time.Sleep(2 * time.Second)
			_ = writes.end()
			expired, end := context.WithTimeout(t.Context(), time.Second)
			defer end()
			a := &balancer.Attempt{Write: true}
			require.Error(t, aWrite.send(balancer.WithAttempt(expired, a), c))
			assert.False(t, a.MaySent(), "a write that ends in the outage was not sent")
			time.Sleep(7 * time.Second)
			outcomes := make(chan outcome, 20)
			for range cap(outcomes) {
				go func() { outcomes <- c.write() }()
			}
			time.Sleep(time.Second)
			assert.LessOrEqual(t, dials(servers)-before, int64(30), "in 11 s")
			heal()
			healed := time.Now()
			succeed(t, outcomes)
			assert.LessOrEqual(t, time.Since(healed), time.Second)
			assert.LessOrEqual(t, dials(servers)-before, int64(30+n))
		})
	}
}

// What was sent on the old connections arrives first.
func TestWritesWaitForASignOfLife(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		address(servers)
		c := warm(t, roundRobin, servers)
		c.load(3, 20*time.Millisecond, 10*time.Second, false)
		time.Sleep(time.Second)
		_, healOld := swallow(servers)
		time.Sleep(3 * time.Second)
		write := make(chan outcome, 1)
		go func() { write <- c.write() }()
		time.Sleep(time.Second)
		healOld()
		healed := time.Now()
		require.NoError(t, (<-write).err)
		assert.LessOrEqual(t, time.Since(healed), 100*time.Millisecond)
	})
}

// Where nothing else waits at the endpoint, a write that waits is a reason for a second connection.
func TestWriteThatWaitsAloneGoesOut(t *testing.T) {
	withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
		each(servers, forget)
		read, end := context.WithTimeout(t.Context(), 800*time.Millisecond)
		defer end()
		require.Error(t, c.call(read, aRead).err)
		o := c.write()
		require.NoError(t, o.err)
		assert.LessOrEqual(t, o.took, 2500*time.Millisecond)
		before := dials(servers)
		time.Sleep(time.Minute)
		assert.Equal(t, before, dials(servers))
	})
}

// The probe in flight is answered, however long the silence was.
func TestWritesGoOutOnceTheirEndpointIsNoLongerFrozen(t *testing.T) {
	withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
		c.load(1, time.Second, 5*time.Second, true)
		for range 4 {
			before := c.probes.Load()
			servers[0].frozen.Shut()
			time.Sleep(6 * time.Minute)
			servers[0].frozen.Open()
			assert.NoError(t, c.call(t.Context(), attempt{write: true, deadline: time.Second}).err)
			assert.LessOrEqual(t, c.probes.Load()-before, int64(8), "each waits for as long as the silence before it")
			time.Sleep(time.Minute)
		}
	})
}

// controlled are credentials like those of xDS.
type controlled struct {
	credentials.TransportCredentials
}

func (controlled) UsesXDS() bool { return true }

func (c controlled) Clone() credentials.TransportCredentials { return c }

// gRPC looks for UsesXDS. Without it, the security of the control plane is ignored.
func TestCredentialsOfXDS(t *testing.T) {
	usesXDS := func(c credentials.TransportCredentials) bool {
		x, ok := c.(interface{ UsesXDS() bool })
		return ok && x.UsesXDS()
	}
	creds := balancer.Credentials(controlled{insecure.NewCredentials()})
	assert.True(t, usesXDS(creds))
	assert.True(t, usesXDS(creds.Clone()))
	assert.False(t, usesXDS(balancer.Credentials(insecure.NewCredentials())))
}
