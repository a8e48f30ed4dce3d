package balancer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/balancer"
)

// swallow makes the network to all servers lose everything. heal ends that for new connections; what was sent on
// the others is repeated when they are healed, too.
func swallow(servers []*server) (heal, healOld func()) {
	each(servers, func(s *server) { s.blackhole.Shut() })
	var old []*serverConn
	for _, s := range servers {
		old = append(old, s.connections()...)
	}
	forget(servers...)
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
			for range cap(outcomes) {
				require.NoError(t, (<-outcomes).err)
			}
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
		forget(servers...)
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
