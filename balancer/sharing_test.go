package balancer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// sharing returns a change of options for clients that share health.
func sharing() func(*balancer.Options) {
	shared := health.NewTable()
	return func(o *balancer.Options) {
		o.Shared, o.ShareKey = shared, func(a resolver.Address) string { return "plaintext " + a.Addr }
	}
}

// sharingClients returns two clients that share health.
func sharingClients(t *testing.T, servers []*server) (first, second *client) {
	share := sharing()
	return warm(t, roundRobin, servers, share), warm(t, roundRobin, servers, share)
}

func TestEndpointFoundDeadByOneClientIsAvoidedByAnother(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		busy, idle := sharingClients(t, servers)
		busy.load(6, 20*time.Millisecond, time.Hour, false)
		time.Sleep(time.Second)
		s := servers[0]
		s.frozen.Shut()
		within(t, time.Second, "suspected", func() bool { return busy.is(s) == health.Suspected })
		synctest.Wait()
		for range 10 {
			o := idle.write()
			require.NoError(t, o.err)
			assert.NotEqual(t, s.addr, o.at.Address())
		}
		within(t, time.Second, "dead", func() bool { return idle.is(s) == health.Dead })
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"a"}, busy.events.closedAddresses())
		assert.LessOrEqual(t, probesOf([]*client{busy, idle}), int64(8))
		for range 10 {
			require.NoError(t, idle.write().err)
		}
		s.frozen.Open()
		within(t, 11*time.Second, "readmitted", func() bool { return busy.is(s) == health.Serving })
		assert.Equal(t, health.Serving, idle.is(s))
	})
}

func TestClientThatJoinsAfterAVerdictWritesEverywhereAgain(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		share := sharing()
		busy := warm(t, roundRobin, servers, share)
		l := busy.load(6, 20*time.Millisecond, time.Hour, false)
		time.Sleep(time.Second)
		servers[0].frozen.Shut()
		within(t, 2*time.Second, "dead", func() bool { return busy.is(servers[0]) == health.Dead })
		servers[0].frozen.Open()
		within(t, 11*time.Second, "readmitted", func() bool { return busy.is(servers[0]) == health.Serving })
		l.end()
		joining := warm(t, roundRobin, servers, share)
		require.NoError(t, joining.write().err)
		time.Sleep(10 * time.Second)
		calls := received(servers, func() {
			for range 30 {
				require.NoError(t, joining.write().err)
			}
		})
		assert.EqualValues(t, 10, calls[0])
	})
}

// The calls that a client ends as it closes are no evidence for others.
func TestClosedClientSuspectsNoEndpoint(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		closed, other := sharingClients(t, servers)
		s := servers[0]
		s.stalled.Shut()
		outcomes := closed.starting(1, s, aWrite)
		time.Sleep(60 * time.Millisecond)
		require.NoError(t, closed.Close())
		require.Error(t, (<-outcomes).err)
		s.stalled.Open()
		time.Sleep(2 * time.Second)
		assert.False(t, other.events.ever(health.Suspected))
	})
}

// A verdict of another client does not close a connection that answers.
func TestConnectionOfAnotherClientIsCheckedBeforeItIsClosed(t *testing.T) {
	for name, frozen := range map[string]bool{"answers": false, "is silent": true} {
		subtest(t, name, 3, func(t *testing.T, servers []*server) {
			first, second := sharingClients(t, servers)
			first.load(6, 50*time.Millisecond, time.Hour, false)
			s := servers[0]
			conns := s.connections()
			require.Len(t, conns, 2)
			call := second.starting(1, s, attempt{write: true, takes: 3 * time.Second})
			bulk := second.open(balancer.Bulk, second.endpoint(s))
			time.Sleep(time.Second)
			conns[0].frozen.Shut()
			if frozen {
				conns[1].frozen.Shut()
			}
			s.stalled.Shut()
			time.Sleep(1500 * time.Millisecond)
			assert.Equal(t, []string{"a"}, first.events.closedAddresses())
			if frozen {
				assert.ErrorContains(t, (<-call).cut, "no sign of life")
				synctest.Wait()
				assert.Equal(t, []string{"a"}, second.events.closedAddresses())
			} else {
				assert.Empty(t, call)
				assert.Empty(t, second.events.closedAddresses())
			}
			assert.True(t, bulk.isOpen())
			s.stalled.Open()
			conns[1].frozen.Open()
			conns[0].frozen.Open()
			if !frozen {
				assert.NoError(t, (<-call).err)
				assert.Empty(t, second.events.closedAddresses())
			}
			bulk.close()
		})
	}
}

func TestClientsThatShareProbeOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		share := sharing()
		clients := make([]*client, 20)
		for i := range clients {
			clients[i] = warm(t, roundRobin, servers, share)
		}
		servers[0].stalled.Shut()
		reads := clients[0].starting(1, servers[0], aRead)
		assert.ErrorContains(t, (<-reads).cut, "lagging")
		assert.LessOrEqual(t, probesOf(clients), int64(20))
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, probesOf(clients), int64(20+60/2))
		for _, c := range clients {
			assert.Equal(t, health.Lagging, c.is(servers[0]))
		}
		servers[0].stalled.Open()
		within(t, 11*time.Second, "readmitted", func() bool { return clients[19].is(servers[0]) == health.Serving })
	})
}

// When the client that probes closes, another one probes.
func TestProbingIsTakenOver(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		first, second := sharingClients(t, servers)
		servers[0].stalled.Shut()
		<-first.starting(1, servers[0], aRead)
		require.Equal(t, health.Lagging, second.is(servers[0]))
		require.NoError(t, first.Close())
		servers[0].stalled.Open()
		within(t, 22*time.Second, "readmitted", func() bool { return second.is(servers[0]) == health.Serving })
		assert.Positive(t, second.probes.Load())
	})
}

func TestClientWithoutAShareKeyIsIndependent(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		share := sharing()
		sharer := warm(t, roundRobin, servers, share)
		alone := warm(t, roundRobin, servers, share, func(o *balancer.Options) {
			o.ShareKey = func(resolver.Address) string { return "" }
		})
		servers[0].stalled.Shut()
		<-sharer.starting(1, servers[0], aRead)
		assert.Equal(t, health.Lagging, sharer.is(servers[0]))
		assert.Equal(t, health.Serving, alone.is(servers[0]))
		<-alone.starting(1, servers[0], aRead)
		assert.Equal(t, health.Lagging, alone.is(servers[0]))
		assert.Len(t, alone.options.Table.All(), 2)
		assert.Empty(t, sharer.options.Table.All(), "its endpoints are in the shared table")
		assert.Len(t, sharer.options.Shared.All(), 2)
		require.NoError(t, sharer.Close())
		assert.Empty(t, alone.options.Shared.All(), "its entry is no longer used")
	})
}

func TestQuietStreamsOfManyClientsCostFewProbes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		each(servers, func(s *server) { s.quiet.Shut() })
		share := sharing()
		var clients []*client
		for range 30 {
			c := connect(t, roundRobin, servers, share)
			c.open(balancer.Streams, nil)
			clients = append(clients, c)
		}
		time.Sleep(5 * time.Minute)
		assert.LessOrEqual(t, probesOf(clients), int64(30*300/10), "one in ten seconds for each connection")
		for _, c := range clients {
			assert.LessOrEqual(t, c.probes.Load(), int64(300/10), "one in ten seconds")
		}
	})
}

// A client that cannot probe, as it has one endpoint or no prober, finds nothing out about it.
func TestVerdictOutlastsAClientThatCannotProbe(t *testing.T) {
	for name, change := range map[string]func(*balancer.Options){"one endpoint": func(*balancer.Options) {}, "no prober": unprobed} {
		subtest(t, name, 3, func(t *testing.T, servers []*server) {
			share, n := sharing(), len(servers)
			if name == "one endpoint" {
				n = 1
			}
			busy, other := warm(t, roundRobin, servers, share), warm(t, roundRobin, servers[:n], share, change)
			s := servers[0]
			s.stalled.Shut()
			busy.load(6, 60*time.Millisecond, time.Hour, false)
			within(t, 2*time.Second, "lagging", func() bool { return busy.is(s) == health.Lagging })
			for range 20 {
				require.Error(t, other.call(t.Context(), attempt{only: other.endpoint(s), deadline: 300 * time.Millisecond}).err)
				require.Equal(t, health.Lagging, busy.is(s))
			}
		})
	}
}

// The first endpoint is known before the others, as that of a client that asks it for the members.
func TestEndpointJoinsWhenThereAreOthers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		share := sharing()
		s, c := servers[0], connect(t, roundRobin, servers, share)
		c.resolver.InitialState(c.state(s))
		c.warm()
		assert.Empty(t, c.options.Shared.All())
		c.resolver.UpdateState(c.state(servers...))
		assert.Equal(t, health.Serving, c.is(s))
		c.warm()
		assert.Len(t, c.options.Shared.All(), 3)
		assert.Empty(t, c.options.Table.All())

		busy := warm(t, roundRobin, servers, share)
		busy.load(6, 20*time.Millisecond, time.Hour, false)
		s.frozen.Shut()
		within(t, time.Second, "dead", func() bool { return c.is(s) == health.Dead })
		require.NoError(t, busy.Close())
		s.frozen.Open()
		within(t, 31*time.Second, "readmitted", func() bool { return c.is(s) == health.Serving })
		require.NoError(t, c.Close())
		assert.Empty(t, c.options.Shared.All())
	})
}

// Clients of a process that start at once ask each server once whether it serves.
func TestFirstWritesOfManyClientsCostFewProbes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		share := sharing()
		var clients []*client
		var wrote []<-chan outcome
		for range 20 {
			c := connect(t, roundRobin, servers, share)
			done := make(chan outcome, 1)
			go func() { done <- c.write() }()
			clients, wrote = append(clients, c), append(wrote, done)
		}
		for _, done := range wrote {
			o := <-done
			require.NoError(t, o.err)
			assert.LessOrEqual(t, o.took, 3*usual)
		}
		assert.LessOrEqual(t, probesOf(clients), int64(2*len(servers)))
	})
}
