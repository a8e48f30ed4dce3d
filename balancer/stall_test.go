package balancer_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

func TestWritesOutlastAShortStall(t *testing.T) {
	for _, stall := range []time.Duration{700 * time.Millisecond, 1900 * time.Millisecond} {
		withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
			c.load(3, 20*time.Millisecond, 10*time.Second, false)
			servers[0].stalled.Shut()
			writes := c.starting(20, servers[0], aWrite)
			time.Sleep(stall)
			servers[0].stalled.Open()
			succeed(t, writes)
			within(t, 2*time.Second, "serves", func() bool { return c.is(servers[0]) == health.Serving })
			assert.Empty(t, c.events.closedAddresses())
		})
	}
}

// Probes that waited in one stall are answered late together. They count as one late answer.
func TestLateAnswersTogetherAreOne(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		c.load(3, 20*time.Millisecond, 10*time.Second, false)
		ep := c.endpoint(servers[0])
		wait := func() time.Time {
			sent := time.Now()
			time.Sleep(time.Second)
			return sent
		}
		sent := wait()
		ep.Answer(sent)
		ep.Answer(sent.Add(time.Second / 2))
		assert.NotEqual(t, health.Slow, ep.State())
		ep.Answer(wait())
		assert.Equal(t, health.Slow, ep.State())
	})
}

// The next probe follows a late answer at once, although pauses between probes have become long.
func TestEndpointServesAtTheEndOfAStall(t *testing.T) {
	for range 5 {
		withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
			c.load(3, 20*time.Millisecond, 10*time.Second, true) // no reads, which would test it
			servers[0].stalled.Shut()
			<-c.starting(1, servers[0], aRead)
			time.Sleep(3 * time.Second)
			servers[0].stalled.Open()
			within(t, time.Second, "serves", func() bool { return c.is(servers[0]) == health.Serving })
		})
	}
}

func TestReadsAreCutBeforeWritesOnAStalledEndpoint(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		c.load(3, 20*time.Millisecond, 10*time.Second, false)
		servers[0].stalled.Shut()
		reads, writes := c.starting(5, servers[0], aRead), c.starting(5, servers[0], aWrite)
		for range 5 {
			o := <-reads
			assert.ErrorContains(t, o.cut, "endpoint a is lagging")
			assert.LessOrEqual(t, o.took, 700*time.Millisecond)
		}
		for range 5 {
			o := <-writes
			assert.ErrorContains(t, o.cut, "endpoint a is lagging (stalled: alive, and nothing completed for")
			assert.ErrorContains(t, o.cut, "others serve")
			assert.GreaterOrEqual(t, o.took, balancer.DefaultWriteStallTimeout)
			assert.LessOrEqual(t, o.took, balancer.DefaultWriteStallTimeout+250*time.Millisecond)
		}
		time.Sleep(3*time.Second - balancer.DefaultWriteStallTimeout)
		servers[0].stalled.Open()
		within(t, 11*time.Second, "serves", func() bool { return c.is(servers[0]) == health.Serving })
		assert.Empty(t, c.events.closedAddresses(), "it was alive")
		assert.EqualValues(t, 1, servers[0].conns.Load())
	})
}

// leaderless reports that a server has no leader, once it has noticed.
type leaderless struct {
	from time.Time
	sent atomic.Int64
}

func (p *leaderless) Probe(ctx context.Context, cc grpc.ClientConnInterface, report func(health.Report)) {
	p.sent.Add(1)
	if time.Now().Before(p.from) {
		report(health.Report{Kind: health.Answered})
		return
	}
	report(health.Report{Kind: health.Degrading})
}

// A member that is cut off from its peers notices after the election timeout that it has no leader.
// Its earlier probes for service hang.
func TestWritesEndSoonAfterTheirEndpointLosesItsLeader(t *testing.T) {
	for _, after := range []time.Duration{700 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		for _, load := range []time.Duration{20 * time.Millisecond, 2 * time.Second} {
			inBubble(t, 3, func(t *testing.T, servers []*server) {
				status := new(leaderless)
				c := warm(t, roundRobin, servers, func(o *balancer.Options) { o.Status = status })
				c.load(3, load, 20*time.Second, false)
				servers[0].stalled.Shut()
				status.from = time.Now().Add(after)
				writes := c.starting(20, servers[0], aWrite)
				for range 20 {
					o := <-writes
					assert.ErrorContains(t, o.cut, "is degraded")
					assert.LessOrEqual(t, o.took, after+600*time.Millisecond) // a status probe, and a round of probes for a witness
				}
				assert.LessOrEqual(t, status.sent.Load(), int64(8))
				servers[0].stalled.Open()
			})
		}
	}
}

// An endpoint that answers liveness checks alone, as one that defragments, is not found dead.
func TestUnansweredStatusIsNoSilence(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers, func(o *balancer.Options) { o.Status = o.Service })
		c.load(3, 60*time.Millisecond, 20*time.Second, false)
		servers[0].stalled.Shut()
		writes := c.starting(20, servers[0], aWrite)
		for range 20 {
			assert.GreaterOrEqual(t, (<-writes).took, balancer.DefaultWriteStallTimeout)
		}
		time.Sleep(10 * time.Second)
		servers[0].stalled.Open()
		assert.Empty(t, c.events.closedAddresses())
		assert.False(t, c.events.ever(health.Dead))
	})
}

func TestWriteStallTimeoutIsAnOption(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, -1} {
		inBubble(t, 3, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers, func(o *balancer.Options) { o.WriteStallTimeout = timeout })
			c.load(3, 200*time.Millisecond, 10*time.Second, false)
			servers[0].stalled.Shut()
			writes := c.starting(1, servers[0], aWrite)
			time.Sleep(timeout + 500*time.Millisecond)
			if timeout > 0 {
				assert.Error(t, (<-writes).cut)
				return
			}
			time.Sleep(time.Minute)
			assert.Empty(t, writes)
			servers[0].stalled.Open()
			assert.NoError(t, (<-writes).err)
		})
	}
}

// An error is at most a suspicion. It is ignored for an endpoint that completed calls meanwhile.
func TestEndpointThatCompletesCallsIsNotEjectedForAnError(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		c.load(6, 100*time.Millisecond, 10*time.Second, false)
		s := servers[0]
		time.Sleep(10 * time.Second)
		lost := c.starting(1, s, attempt{write: true, takes: 7 * time.Second, answer: errTimedOut})
		time.Sleep(6900 * time.Millisecond)
		writes := c.starting(9, s, attempt{write: true, takes: 300 * time.Millisecond})
		require.ErrorIs(t, (<-lost).err, errTimedOut)
		assert.Equal(t, health.Serving, c.is(s))
		succeed(t, writes)
		assert.Equal(t, health.Serving, c.is(s))
		assert.False(t, c.events.ever(health.Lagging, health.Dead))
		assert.Empty(t, c.events.closedAddresses())
	})
}

func TestErrorSuspectsAndProbesEndpoint(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		before := c.probes.Load()
		time.Sleep(time.Second)
		o := <-c.starting(1, servers[0], attempt{write: true, takes: time.Millisecond, answer: errTimedOut})
		require.ErrorIs(t, o.err, errTimedOut)
		assert.Len(t, c.events.reached(servers[0], health.Suspected), 1)
		within(t, 2*usual, "serves", func() bool { return c.is(servers[0]) == health.Serving })
		assert.Equal(t, before+2, c.probes.Load(), "the endpoint and a witness are probed")
		assert.Empty(t, c.events.closedAddresses())
	})
}

// Servers enforce the deadline of a call: after it, "timed out" is no evidence.
func TestDeadlineOfACallerIsNoEvidence(t *testing.T) {
	withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
		ctx := timerless{t.Context(), time.Now().Add(90 * time.Millisecond)}
		answer := make(chan error)
		go func() {
			answer <- c.call(ctx, attempt{write: true, takes: 50 * time.Millisecond, answer: errTimedOut}).err
		}()
		time.Sleep(20 * time.Millisecond)
		servers[0].frozen.Shut() // delays the reply
		time.Sleep(75 * time.Millisecond)
		servers[0].frozen.Open()
		require.ErrorIs(t, <-answer, errTimedOut)
		assert.False(t, c.events.ever(health.Suspected))
	})
}

// timerless is a context whose deadline passes without a timer.
type timerless struct {
	context.Context
	deadline time.Time
}

func (c timerless) Deadline() (time.Time, bool) { return c.deadline, true }

// All endpoints answer long after the callers' deadlines.
func TestSimulatedOverloadEjectsNoEndpoint(t *testing.T) {
	tests := map[string]struct {
		delays  [3]time.Duration
		callers int
		write   bool
	}{
		"reads":                    {[3]time.Duration{1250 * time.Millisecond, 1250 * time.Millisecond, 1250 * time.Millisecond}, 4, false},
		"writes":                   {[3]time.Duration{1250 * time.Millisecond, 1250 * time.Millisecond, 1250 * time.Millisecond}, 4, true},
		"many reads":               {[3]time.Duration{1250 * time.Millisecond, 1250 * time.Millisecond, 1250 * time.Millisecond}, 20, false},
		"slightly":                 {[3]time.Duration{400 * time.Millisecond, 400 * time.Millisecond, 400 * time.Millisecond}, 4, false},
		"to some extent":           {[3]time.Duration{800 * time.Millisecond, 1250 * time.Millisecond, 1700 * time.Millisecond}, 4, false},
		"beyond a probe's timeout": {[3]time.Duration{5 * time.Second, 5 * time.Second, 5 * time.Second}, 4, true},
	}
	for name, tt := range tests {
		subtest(t, name, 3, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers)
			load := c.load(tt.callers, 500*time.Millisecond, 250*time.Millisecond, tt.write)
			time.Sleep(10 * time.Second)
			before := c.probes.Load()
			for i, s := range servers {
				s.delay.Store(int64(tt.delays[i]))
			}
			time.Sleep(10 * time.Second)
			burst := c.probes.Load()
			assert.LessOrEqual(t, burst-before, int64(4+1+10/4+10*tt.callers/20), "the reserve is kept")
			time.Sleep(50 * time.Second)
			assert.LessOrEqual(t, c.probes.Load()-burst, int64(50/4+1+50*2*tt.callers/50), "0.25 per second, and 2 % of the calls")
			assert.False(t, c.events.ever(health.Lagging, health.Dead))
			each(servers, func(s *server) { s.delay.Store(int64(usual)) })
			within(t, 2*time.Second, "serving again", func() bool { return allServe(c, servers) })
			load.end()
			assert.False(t, c.events.ever(health.Lagging, health.Dead))
			assert.Empty(t, c.events.closedAddresses())
			for _, s := range servers {
				assert.EqualValues(t, 1, s.conns.Load())
			}
		})
	}
}

// allServe reports whether all endpoints are Serving.
func allServe(c *client, servers []*server) bool {
	return !slices.ContainsFunc(servers, func(s *server) bool { return c.is(s) != health.Serving })
}

// A fault is detected although the probes of an overload preceded it.
func TestFaultAfterAnOverloadIsDetected(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		c.load(4, 500*time.Millisecond, 250*time.Millisecond, false)
		each(servers, func(s *server) { s.delay.Store(int64(1250 * time.Millisecond)) })
		time.Sleep(time.Minute)
		each(servers, func(s *server) { s.delay.Store(int64(usual)) })
		time.Sleep(10 * time.Second)
		servers[0].frozen.Shut()
		o := <-c.starting(1, servers[0], aWrite)
		assert.Error(t, o.cut)
		assert.Less(t, o.took, 1500*time.Millisecond)
		assert.Equal(t, health.Dead, c.is(servers[0]))
	})
}

func TestSilenceIsIgnoredIfDisabled(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers, unprobed, func(o *balancer.Options) { o.DisableSuspicion = true })
		s := c.open(balancer.Streams, c.endpoint(servers[0]))
		time.Sleep(2 * time.Second)
		servers[0].frozen.Shut()
		call := c.starting(1, servers[0], aWrite)
		time.Sleep(time.Minute)
		assert.Empty(t, call)
		assert.True(t, s.isOpen())
		assert.False(t, c.events.ever(health.Suspected))
		servers[0].frozen.Open()
		assert.NoError(t, (<-call).err)
	})
}

func TestCallsAreCutOnADegradedEndpointOnceAnotherServes(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		s := servers[0]
		// No endpoint has a leader, and calls hang.
		each(servers, func(s *server) { s.fail.Store(&errNoLeader) })
		hanging := attempt{write: true, takes: time.Hour}
		writes := c.starting(3, s, hanging)
		hanging.write = false
		reads := c.starting(3, s, hanging)
		hanging.need = balancer.Local
		local := c.starting(1, s, hanging)
		for _, s := range servers {
			require.ErrorIs(t, (<-c.starting(1, s, aRead)).err, errNoLeader)
		}
		time.Sleep(20 * time.Second)
		assert.Empty(t, writes, "no endpoint serves")
		assert.Empty(t, reads, "no endpoint serves")
		for _, s := range servers {
			assert.Equal(t, health.Degraded, c.is(s))
		}

		each(servers[1:], func(s *server) { s.fail.Store(nil) })
		c.load(1, 20*time.Millisecond, time.Second, false)
		elected := time.Now()
		for range 3 {
			assert.ErrorContains(t, (<-writes).cut, "endpoint a is degraded")
			assert.ErrorContains(t, (<-reads).cut, "others serve")
		}
		assert.Less(t, time.Since(elected), 100*time.Millisecond)
		assert.Empty(t, local, "it can serve local reads")
		assert.Empty(t, c.events.closedAddresses())

		s.fail.Store(nil)
		within(t, 11*time.Second, "readmitted", func() bool { return c.is(s) == health.Serving })
		assert.False(t, c.events.ever(health.Lagging, health.Dead))
		assert.Empty(t, local)
	})
}

func TestDegradedClusterIsProbedSeldom(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		each(servers, func(s *server) { s.fail.Store(&errNoLeader) })
		c.load(1, time.Second, time.Second, true)
		time.Sleep(time.Minute)
		before := c.probes.Load()
		time.Sleep(10 * time.Minute)
		assert.LessOrEqual(t, c.probes.Load()-before, int64(300), "at most half a probe per second")
		assert.Empty(t, c.events.closedAddresses())
		each(servers, func(s *server) { s.fail.Store(nil) })
		within(t, 2*time.Second, "calls are served", func() bool { return c.write().err == nil })
		// The three share a budget of a probe in four seconds, of which six are kept for another fault.
		within(t, 40*time.Second, "all serve", func() bool { return allServe(c, servers) })
	})
}

const (
	// settled is how long an overtaken write is waited for, and unlearnt how long one whose shape is
	// unknown.
	settled  = balancer.DefaultWriteStallTimeout / 8
	unlearnt = 400 * time.Millisecond
)

// lost is a write that a leader loses: its endpoint fails it after 7 s.
var lost = attempt{write: true, prompt: true, shape: "write", takes: 7 * time.Second, answer: errTimedOut}

// inTerm connects to servers that name term 5 of a leader, and have learnt how long writes take.
func inTerm(t *testing.T, servers []*server, change ...func(*balancer.Options)) *client {
	c := warm(t, roundRobin, servers, change...)
	for _, s := range servers {
		for range 25 {
			require.NoError(t, (<-c.starting(1, s, attempt{write: true, prompt: true, shape: "write"})).err)
		}
		c.serves(s, 5)
	}
	return c
}

// serves makes an endpoint complete work that begins now, in a term.
func (c *client) serves(s *server, term uint64) bool {
	return c.endpoint(s).ServedInTerm(term, time.Now())
}

func TestOvertakenWriteEndsOnceItsEndpointServesInTheNewTerm(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := inTerm(t, servers)
		write := c.starting(1, servers[0], lost)
		time.Sleep(time.Second)
		assert.True(t, c.serves(servers[1], 6))
		assert.False(t, c.serves(servers[2], 6), "it is known")
		time.Sleep(10 * time.Millisecond)
		c.serves(servers[0], 6)
		younger := c.starting(1, servers[0], lost)
		o := <-write
		assert.ErrorContains(t, o.cut, "the leader changed")
		assert.Equal(t, 1010*time.Millisecond+settled, o.took)
		assert.ErrorIs(t, (<-younger).err, errTimedOut, "it began in the new term")
		assert.False(t, c.events.ever(health.Lagging, health.Dead))
	})
}

func TestWriteThatIsNotOvertakenGoesOn(t *testing.T) {
	long, read, late := lost, lost, lost
	long.prompt, long.shape = false, ""
	read.write, read.prompt, read.shape = false, false, ""
	late.takes = time.Second + settled - 2*usual
	twiceIn6 := func(c *client, s *server) { c.serves(s, 6); c.serves(s, 6) }
	for name, tt := range map[string]struct {
		write  attempt
		change func(*client, *server)
	}{
		"its endpoint serves in the same term": {lost, func(c *client, s *server) { c.serves(s, 5) }},
		"its endpoint names no term":           {lost, func(c *client, s *server) { c.serves(s, 0) }},
		"its endpoint completes older work": {lost, func(c *client, s *server) {
			c.endpoint(s).ServedInTerm(6, time.Now().Add(-time.Millisecond))
			c.endpoint(s).ServedInTerm(6, time.Now().Add(-time.Millisecond))
		}},
		"it may take long":         {long, twiceIn6},
		"it is a read":             {read, twiceIn6},
		"it is answered after all": {late, twiceIn6},
	} {
		subtest(t, name, 3, func(t *testing.T, servers []*server) {
			c := inTerm(t, servers, unprobed)
			write := c.starting(1, servers[0], tt.write)
			time.Sleep(time.Second)
			tt.change(c, servers[0])
			o := <-write
			assert.NoError(t, o.cut)
			assert.ErrorIs(t, o.err, errTimedOut)
		})
	}
}

// The first term that a client learns of ends no other.
func TestFirstTermOvertakesNothing(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		write := c.starting(1, servers[0], lost)
		time.Sleep(time.Second)
		c.serves(servers[0], 5)
		c.serves(servers[0], 5)
		o := <-write
		assert.NoError(t, o.cut)
	})
}

// A leader is elected every second, and each one loses a write: the clock of a write does not begin
// again with every term.
func TestEachOfManyTermsOvertakesItsWrites(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := inTerm(t, servers)
		for term := uint64(6); term < 20; term++ {
			write := c.starting(1, servers[0], lost)
			time.Sleep(20 * time.Millisecond)
			for range 2 {
				time.Sleep(time.Millisecond)
				c.serves(servers[0], term)
			}
			o := <-write
			assert.Error(t, o.cut)
			assert.LessOrEqual(t, o.took, 30*time.Millisecond+settled)
			time.Sleep(300*time.Millisecond + settled/2)
		}
	})
}

// Writes that usually take long are waited for longer.
func TestOvertakenWriteIsWaitedForAsLongAsItsShapeTakes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := inTerm(t, servers)
		unknown := lost
		unknown.shape = "unknown"
		write := c.starting(1, servers[0], unknown)
		time.Sleep(time.Second)
		c.serves(servers[1], 6)
		c.serves(servers[0], 6)
		assert.Equal(t, time.Second+unlearnt, (<-write).took)
	})
}

// Only probes can show that the endpoint of a client's only write serves in the new term.
func TestEndpointsWithoutOtherWorkAreAskedForTheNewTerm(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := inTerm(t, servers)
		write := c.starting(1, servers[0], lost)
		time.Sleep(5 * time.Second)
		c.term.Store(6)
		before := c.probes.Load()
		c.serves(servers[1], 6)
		o := <-write
		assert.Error(t, o.cut)
		assert.LessOrEqual(t, o.took, 5*time.Second+settled*3/4+usual+settled)
		assert.Equal(t, before+1, c.probes.Load())
	})
}

func TestNegativeWriteStallTimeoutEndsNoOvertakenWrite(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := inTerm(t, servers, func(o *balancer.Options) { o.WriteStallTimeout = -1 })
		write := c.starting(1, servers[0], lost)
		time.Sleep(time.Second)
		for _, s := range servers {
			c.serves(s, 6)
			c.serves(s, 6)
		}
		assert.NoError(t, (<-write).cut)
	})
}

func TestTermsOfEndpointsWithoutAPolicyAreNotKept(t *testing.T) {
	assert.False(t, (*balancer.Endpoint)(nil).ServedInTerm(6, time.Now()))
	assert.False(t, balancer.Detached("a", nil, nil).ServedInTerm(6, time.Now()))
}
