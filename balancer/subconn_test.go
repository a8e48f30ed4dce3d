package balancer

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// newSubConn returns a subConn of a detached endpoint.
func newSubConn() *subConn {
	ep := in("a")
	ep.policy = new(policy)
	return &subConn{ep: ep, class: Calls}
}

func TestSilenceNeedsALivenessCheck(t *testing.T) {
	now := time.Now()
	at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	s := newSubConn()
	assert.Zero(t, s.silentFor(at(1000)), "nothing is unanswered")
	s.noteProbe(forService, at(0))
	s.ep.noteServiceProbe(at(0))
	assert.Positive(t, min(s.unanswered(&s.probeSent, at(0)), s.ep.stalledFor(at(0))), "at once, even with a coarse clock")
	assert.Equal(t, time.Second, s.unanswered(&s.probeSent, at(1000)))
	assert.Zero(t, s.silentFor(at(1000)), "a stalled server does not answer a service probe")
	s.noteProbe(forLiveness, at(1000))
	assert.Zero(t, s.silentFor(at(1000).Add(livenessTimeout-1)), "too early to answer")
	assert.Equal(t, time.Second+livenessTimeout, s.silentFor(at(1000).Add(livenessTimeout)))
	s.noteProbe(forLiveness, at(1250))
	assert.Equal(t, 2*time.Second, s.silentFor(at(2000)), "the first probe counts")
	s.heardAt(at(2000), 0)
	assert.Zero(t, s.silentFor(at(3000)))
	s.noteProbe(forStatus, at(3000))
	assert.Zero(t, s.silentFor(at(4000)), "a member that defragments does not answer it")
	s.forget()
	assert.Zero(t, s.silentFor(at(5000)))
}

// restart starts the round of probes anew, as after one that took too long.
func TestLateRoundStartsAnew(t *testing.T) {
	now := time.Now()
	ep := in("a")
	ep.policy = new(policy)
	for class := range ep.conns {
		ep.conns[class].Store(&subConn{ep: ep, class: ConnClass(class)})
	}
	s, answered := ep.conn(Calls), ep.conn(Bulk)
	s.noteProbe(forLiveness, now)
	answered.noteProbe(forLiveness, now)
	answered.heardAt(now, 0)
	ep.noteServiceProbe(now.Add(time.Millisecond))
	late := now.Add(10 * time.Second)
	require.Equal(t, 10*time.Second, s.silentFor(late))
	for _, conn := range ep.connections() {
		conn.restart(late)
	}
	assert.Zero(t, s.silentFor(late))
	assert.Zero(t, answered.silentFor(late))
	assert.Equal(t, time.Nanosecond, ep.stalledFor(late))
	assert.Equal(t, time.Second, s.silentFor(late.Add(time.Second)))
	assert.Equal(t, time.Second, ep.stalledFor(late.Add(time.Second)))
}

func TestLateTimerDoesNotFindAConnectionSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := new(struct{ balancer.SubConn })
		p := newPolicy(nil, Builder{})
		defer p.stop()
		s := newSubConn()
		s.sc, s.state = sc, connectivity.Connecting
		assert.False(t, p.reconnects.markSlow(s, sc, starved+1))
		assert.False(t, s.slow)
		assert.False(t, p.reconnects.markSlow(s, new(struct{ balancer.SubConn }), 0), "the call has ended")
		assert.True(t, p.reconnects.markSlow(s, sc, starved))
		assert.True(t, s.slow)
		assert.False(t, p.reconnects.markSlow(s, sc, starved), "once")
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		time.Sleep(time.Second) // the timer of the first call fires
	})
}

// A server that closes a connection while it is made is dialed no more often than one that does so later.
func TestConnectionThatIsClosedAtOnceDoesNotLast(t *testing.T) {
	sc := new(struct{ balancer.SubConn })
	p := newPolicy(nil, Builder{})
	p.stop()
	s := newSubConn()
	s.sc, s.state, s.attempted, s.brief = sc, connectivity.Connecting, time.Now(), maxBrief+1
	p.takeState(s, sc, balancer.SubConnState{ConnectivityState: connectivity.Idle})
	s.timer.Stop()
	assert.True(t, s.due.After(s.attempted))
}

// stepped returns the reading at t of a clock that was stepped by a whole number of seconds.
func stepped(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	after := at
	(*struct{ wall, ext uint64 })(unsafe.Pointer(&after)).wall += uint64(by/time.Second) << 30
	require.Zero(t, after.Sub(at), "the monotonic reading is the same")
	require.Equal(t, by, after.Round(0).Sub(at.Round(0)))
	return after
}

func TestStepsOfTheWallClockChangeNothing(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		now := time.Now()
		later := stepped(t, now.Add(time.Second), step)
		s := newSubConn()
		s.heardAt(now.Add(-time.Second), 0)
		s.noteProbe(forLiveness, now)
		s.ep.noteServiceProbe(now)
		assert.Equal(t, time.Second, s.silentFor(later))
		assert.Equal(t, time.Second, s.ep.stalledFor(later))
		s.ep.healthEntry().Completed(later, later)
		assert.True(t, s.ep.CompletedSince(now.Add(time.Second)))
		assert.False(t, s.ep.CompletedSince(now.Add(2*time.Second)))
		s.heardAt(later, 0)
		assert.Zero(t, s.silentFor(later))

		var shared shapes
		st := new(latencies).get("", &shared)
		st.observe(later, time.Second)
		assert.True(t, st.answered.After(now.Add(time.Second)))
		assert.False(t, st.answered.After(now.Add(2*time.Second)))

		s.conn.received.Store(largeMessage)
		s.conn.arrived.Set(now)
		assert.True(t, s.conn.receiving(later))
		assert.False(t, s.conn.receiving(later.Add(time.Second)))

		var b budget
		b.spend(now, 0)
		assert.Zero(t, b.spend(later, 0))
		assert.Equal(t, 1, b.spend(later.Add(3*time.Second), 0))
	}
}

// A connection is receiving while a large message arrives, until it is complete or pauses.
func TestReceiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, peer := net.Pipe()
		defer func() { assert.NoError(t, conn.Close()) }()
		defer func() { assert.NoError(t, peer.Close()) }()
		c := &netConn{}
		arrive := func(n int) {
			go func() { _, _ = peer.Write(make([]byte, n)) }()
			_, err := io.ReadFull(countingConn{conn, c}, make([]byte, n))
			require.NoError(t, err)
		}
		c.complete.Store(c.received.Load())
		arrive(largeMessage - 1)
		assert.False(t, c.receiving(time.Now()), "the answer to a probe is as large")
		arrive(1)
		assert.True(t, c.receiving(time.Now()))
		time.Sleep(transferPause - 1)
		assert.True(t, c.receiving(time.Now()))
		time.Sleep(time.Nanosecond)
		assert.False(t, c.receiving(time.Now()), "a long pause")
		arrive(1)
		assert.True(t, c.receiving(time.Now()))
		c.complete.Store(c.received.Load())
		assert.False(t, c.receiving(time.Now()), "the message is complete")
	})
}

func TestConnectionIsClosedOnce(t *testing.T) {
	conn, peer := net.Pipe()
	defer func() { assert.NoError(t, peer.Close()) }()
	c := &netConn{}
	assert.False(t, c.known())
	assert.False(t, c.close())
	c.set(conn)
	assert.True(t, c.known())
	assert.Zero(t, c.backlog(), "it is not TCP")
	assert.True(t, c.close())
	_, err := conn.Write([]byte("x"))
	assert.ErrorIs(t, err, io.ErrClosedPipe)
	assert.False(t, c.close())
}

// A server that receives a large message sends window updates and answers to PINGs.
func TestControlFramesAreNoMessage(t *testing.T) {
	c := &netConn{}
	for range 1000 {
		c.arrivedNow(controlFrames - 1)
	}
	assert.False(t, c.receiving(time.Now()))
	c.arrivedNow(largeMessage)
	assert.True(t, c.receiving(time.Now()))
}
