package balancer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

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
