package balancer_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// lose makes the latest connection to a server silent.
func lose(s *server) {
	conns := s.connections()
	conns[len(conns)-1].frozen.Shut()
}

// A NAT forgets one connection of a client. Another client of the process works at the same endpoint.
func TestConnectionIsNotAliveForAnotherClient(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		other, c := sharingClients(t, servers)
		other.load(3, 20*time.Millisecond, time.Hour, false)
		time.Sleep(2 * time.Second)
		lose(servers[0])
		ready := make(chan bool, 1)
		c.watched(servers[0], func(error) { ready <- c.endpoint(servers[0]).Ready() })
		calls := [2]<-chan outcome{c.starting(3, servers[0], aRead), c.starting(3, servers[0], aWrite)}
		for _, ended := range calls {
			for range 3 {
				o := <-ended
				assert.ErrorContains(t, o.cut, "its connection gives no sign of life")
				assert.GreaterOrEqual(t, o.took, 600*time.Millisecond, "two lost packets were repeated by then")
				assert.LessOrEqual(t, o.took, 700*time.Millisecond)
			}
		}
		assert.False(t, <-ready, "the next call of a caller whose call is cut begins elsewhere")
		synctest.Wait()
		assert.Equal(t, []string{"a"}, c.events.closedAddresses())
		within(t, 300*time.Millisecond, "connected again", c.endpoint(servers[0]).Ready)
		assert.NoError(t, (<-c.starting(1, servers[0], aWrite)).err)
		assert.EqualValues(t, 1, c.probes.Load())
		assert.Empty(t, other.events.closedAddresses())
		assert.False(t, other.events.ever(health.Suspected, health.Lagging, health.Dead), "the endpoint works")
	})
}

// The same for a stream, over each class of connection.
func TestStreamIsNotAliveForAnotherClient(t *testing.T) {
	for name, class := range map[string]balancer.ConnClass{"light": balancer.Streams, "bulk": balancer.Bulk} {
		subtest(t, name, 3, func(t *testing.T, servers []*server) {
			other, c := sharingClients(t, servers)
			other.load(3, 20*time.Millisecond, time.Hour, false)
			st := c.open(class, c.endpoint(servers[0]))
			time.Sleep(5 * time.Second)
			lose(servers[0])
			assert.ErrorContains(t, st.endsWithin(t, time.Second), "its connection gives no sign of life")
			synctest.Wait()
			assert.Equal(t, []string{"a"}, c.events.closedAddresses())
			assert.False(t, other.events.ever(health.Suspected, health.Lagging, health.Dead))
		})
	}
}

// The connection of large calls is lost, and the one for other calls works. Where there is no other endpoint, they would come
// back to the silent connection before it is closed.
func TestLargeCallLeavesASilentConnection(t *testing.T) {
	for _, n := range []int{1, 3} {
		withClient(t, n, func(t *testing.T, c *client, servers []*server) {
			large := attempt{large: true, shape: "large"}
			require.NoError(t, (<-c.starting(1, servers[0], large)).err)
			assert.Len(t, servers[0].connections(), 2)
			c.load(n-1, 20*time.Millisecond, time.Hour, false)
			time.Sleep(time.Second)
			lose(servers[0])
			o := <-c.starting(1, servers[0], large)
			assert.ErrorContains(t, o.cut, "its connection gives no sign of life")
			assert.LessOrEqual(t, o.took, 2*time.Second)
			assert.NoError(t, c.call(t.Context(), large).err)
			assert.False(t, n > 1 && c.events.ever(health.Suspected, health.Lagging, health.Dead), "the endpoint works")
		})
	}
}

// A call that takes long, and a stream that pauses, cost a check of a connection that answers.
func TestConnectionThatAnswersIsKept(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		other, c := sharingClients(t, servers)
		other.load(3, 20*time.Millisecond, time.Hour, false)
		st := c.open(balancer.Streams, c.endpoint(servers[0]))
		time.Sleep(5 * time.Second)
		servers[0].quiet.Shut()
		call := c.starting(1, servers[0], attempt{write: true, takes: 5 * time.Second})
		require.NoError(t, (<-call).err)
		assert.True(t, st.isOpen())
		assert.Empty(t, c.events.closedAddresses())
		assert.LessOrEqual(t, c.probes.Load(), int64(8), "one for each doubling of the silence")
		assert.False(t, c.events.ever(health.Suspected))
	})
}

// Clients that cannot connect any more, with an expired certificate for example, tell another
// client nothing about endpoints that it is connected to.
func TestFailedConnectIsNoEvidenceWhileAnotherClientIsConnected(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		share := sharing()
		good := warm(t, roundRobin, servers, share)
		var refuse atomic.Bool
		dial := dialer(servers)
		expired := grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			if refuse.Load() {
				return nil, errors.New("certificate expired")
			}
			return dial(ctx, address)
		})
		eager := grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{
			BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 1, MaxDelay: 5 * time.Second,
		}})
		for range 20 {
			connectBy(t, roundRobin, servers, []grpc.DialOption{expired, eager}, share).warm()
		}
		refuse.Store(true)
		for _, s := range servers {
			for _, conn := range s.connections()[1:] {
				_ = conn.Close()
			}
		}
		good.load(2, 100*time.Millisecond, time.Hour, false)
		time.Sleep(time.Minute)
		assert.False(t, good.events.ever(health.Suspected, health.Dead))
		assert.Zero(t, good.probes.Load())
		servers[0].frozen.Shut()
		within(t, 800*time.Millisecond, "dead", func() bool { return good.is(servers[0]) == health.Dead })
	})
}

// Once no client is connected, a failed connect shows that the endpoint is gone.
func TestFailedConnectIsEvidenceWhileNothingIsConnected(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		first, second := sharingClients(t, servers)
		servers[0].kill()
		time.Sleep(time.Second)
		assert.Equal(t, health.Dead, first.is(servers[0]))
		assert.Equal(t, health.Dead, second.is(servers[0]))
	})
}

// Transfers wait for a connection of their own, whatever the code of the dialer's error, as calls do.
func TestTransfersWaitWhileADialerFails(t *testing.T) {
	withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
		servers[0].lis = nil // it refuses new connections
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.tryOpen(ctx, balancer.Bulk, nil)
		assert.ErrorContains(t, err, "DeadlineExceeded")
	})
}

// Of two clients, the one that is elected to probe has spent its budget on another fault.
func TestElectionGoesBackWhenTheBudgetIsSpent(t *testing.T) {
	for range 3 {
		inBubble(t, 3, func(t *testing.T, servers []*server) {
			share := sharing()
			poor := warm(t, roundRobin, servers, share)
			servers[2].stalled.Shut()
			<-poor.starting(1, servers[2], aRead)
			time.Sleep(5 * time.Minute)
			busy := connect(t, roundRobin, servers, share)
			busy.Connect()
			time.Sleep(10 * time.Millisecond)
			for _, s := range servers[:2] {
				for range 25 {
					require.NoError(t, busy.call(t.Context(), attempt{only: busy.endpoint(s)}).err)
				}
			}
			busy.load(6, 100*time.Millisecond, 500*time.Millisecond, false)
			time.Sleep(20 * time.Second)
			poor.endpoint(servers[0]).SpendProbes()
			servers[0].stalled.Shut()
			within(t, time.Second, "lagging", func() bool { return busy.is(servers[0]) == health.Lagging })
		})
	}
}

// A client that makes a call or two finds a fault while another one has lasted for minutes.
func TestSecondFaultIsFoundByAnIdleClient(t *testing.T) {
	for first, shut := range map[string]func(*server){
		"stalled": func(s *server) { s.stalled.Shut() },
		"frozen":  func(s *server) { s.frozen.Shut() },
	} {
		t.Run(first, func(t *testing.T) {
			for range 8 {
				withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
					shut(servers[2])
					<-c.starting(1, servers[2], aRead)
					time.Sleep(5 * time.Minute)
					servers[0].frozen.Shut()
					calls := c.starting(2, servers[0], aRead)
					within(t, time.Second, "dead", func() bool { return c.is(servers[0]) == health.Dead })
					<-calls
					<-calls
				})
			}
		})
	}
}

// After an outage, reads and streams leave a connection that is still silent while others of the client are not. That
// its endpoint serves other clients changes nothing.
func TestReadsLeaveASilentConnectionAfterAnOutage(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		other, c := sharingClients(t, servers)
		other.load(6, 50*time.Millisecond, time.Hour, false)
		st := c.open(balancer.Streams, c.endpoint(servers[0]))
		var silent []*serverConn
		for _, s := range servers {
			silent = append(silent, s.connections()...)
			s.blackhole.Shut()
			defer s.blackhole.Open()
		}
		late := silent[1] // c's to the first server
		for _, conn := range silent {
			conn.frozen.Shut()
		}
		reads, writes := c.starting(3, servers[0], aRead), c.starting(1, servers[0], aWrite)
		time.Sleep(10 * time.Second)
		assert.Empty(t, reads, "there is no other connection")
		for _, conn := range silent {
			if conn != late {
				conn.frozen.Open()
			}
		}
		time.Sleep(700 * time.Millisecond)
		require.Len(t, reads, 3)
		for range 3 {
			assert.ErrorContains(t, (<-reads).cut, "other connections serve")
		}
		st.endsWithin(t, time.Nanosecond)
		assert.Empty(t, writes, "they were sent")
		late.frozen.Open()
		assert.NoError(t, (<-writes).err)
	})
}

// A late timer checks no stream, and checks again soon.
func TestLateTimerChecksNoStream(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		ep := c.endpoint(servers[0])
		c.open(balancer.Streams, ep)
		time.Sleep(2 * time.Second)
		servers[0].frozen.Shut()
		ep.HoldTimer()
		time.Sleep(time.Second)
		probes := c.probes.Load()
		ep.CheckLate(51 * time.Millisecond)
		time.Sleep(4 * time.Millisecond)
		assert.Equal(t, probes, c.probes.Load())
		time.Sleep(300 * time.Millisecond)
		assert.Equal(t, health.Suspected, ep.State())
	})
}

// A starved process acts on nothing that it finds too late.
func TestWhatIsFoundLateIsIgnored(t *testing.T) {
	for name, tt := range map[string]struct {
		find  func(*balancer.Endpoint, time.Duration)
		again bool // it is found 50 ms later
	}{
		"a call without an answer":  {(*balancer.Endpoint).CheckLate, true},
		"a round of probes":         {(*balancer.Endpoint).Investigate, false},
		"a silent connection":       {(*balancer.Endpoint).CheckConn, false},
		"a silent stream":           {(*balancer.Endpoint).AwaitStream, false},
		"a connection to be closed": {(*balancer.Endpoint).CloseUnheard, true},
		"an overtaken write":        {(*balancer.Endpoint).CutOvertaken, true},
	} {
		for late, found := range map[time.Duration]bool{50 * time.Millisecond: true, 51 * time.Millisecond: false} {
			subtest(t, name+", after "+late.String(), 2, func(t *testing.T, servers []*server) {
				c := warm(t, roundRobin, servers)
				call := c.starting(1, servers[0], attempt{prompt: true})
				time.Sleep(usual / 2)
				servers[0].frozen.Shut()
				ep := c.endpoint(servers[0])
				ep.HoldTimer()
				time.Sleep(time.Second)
				c.starting(1, servers[1], attempt{takes: 100 * time.Millisecond})
				tt.find(ep, late)
				synctest.Wait()
				isFound := func() bool { return ep.State() != health.Serving || len(call) == 1 }
				assert.Equal(t, found, isFound())
				time.Sleep(50 * time.Millisecond)
				synctest.Wait()
				assert.Equal(t, found || tt.again, isFound())
			})
		}
	}
}

func TestTrafficNeedsNoProbes(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		c.reads(300)
		each(servers, func(s *server) {
			assert.Equal(t, health.Serving, c.is(s))
			assert.EqualValues(t, 1, s.conns.Load(), "connections")
		})
		assert.Zero(t, c.probes.Load(), "traffic is a sign of life")
	})
}

// Without a prober, other endpoints are preferred while one is silent.
func TestSilenceIsASuspicionWithoutAProber(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers, unprobed)
		l := c.load(2, 100*time.Millisecond, time.Hour, false)
		s := servers[0]
		s.frozen.Shut()
		stuck := c.starting(1, s, aWrite)
		within(t, time.Second, "suspected", func() bool { return c.is(s) == health.Suspected })
		synctest.Wait() // the picker follows the state
		for range 20 {
			o := c.read()
			require.NoError(t, o.err)
			assert.Equal(t, "b", o.at.Address())
		}
		time.Sleep(time.Minute)
		assert.Equal(t, health.Suspected, c.is(s))
		s.frozen.Open()
		require.NoError(t, (<-stuck).err)
		time.Sleep(time.Millisecond)
		assert.Equal(t, health.Serving, c.is(s))
		assert.Zero(t, failed(l.end()))
		assert.False(t, c.events.ever(health.Lagging, health.Dead))
		assert.Empty(t, c.events.closedAddresses())
		assert.Zero(t, c.probes.Load())
	})
}

func TestLongCallIsNotCut(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		c.load(2, 200*time.Millisecond, time.Second, false)
		before := c.probes.Load()
		for range 4 {
			o := <-c.starting(1, servers[0], attempt{takes: 20 * time.Second})
			require.NoError(t, o.err)
			assert.EqualValues(t, 1, o.overdue, "overdue once")
		}
		assert.LessOrEqual(t, c.probes.Load()-before, int64(8))
		assert.False(t, c.events.ever(health.Slow, health.Lagging, health.Dead))
	})
}
