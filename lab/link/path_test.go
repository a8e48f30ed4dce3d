package link

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
)

// grants runs a path under a virtual clock until n bytes that arrived now have
// passed, and returns when each run went.
func grants(t *testing.T, p *path, n int) []time.Duration {
	t.Helper()
	start := time.Now()
	var times []time.Duration
	for n > 0 {
		granted, ok := p.grant(t.Context().Done(), start, n)
		if !assert.True(t, ok) || !assert.Positive(t, granted) {
			break
		}
		n -= granted
		times = append(times, time.Since(start))
	}
	return times
}

func TestGrant(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		condition Condition
		bytes     int
		want      []time.Duration
	}{
		"open":               {Condition{}, 1000, []time.Duration{0}},
		"delayed":            {Condition{Delay: 70 * ms}, 1000, []time.Duration{70 * ms}},
		"throttled":          {Condition{Rate: 1000}, 120, []time.Duration{50 * ms, 100 * ms, 120 * ms}},
		"delayed, throttled": {Condition{Delay: 70 * ms, Rate: 1000}, 100, []time.Duration{120 * ms, 170 * ms}},
		"a byte a second":    {Condition{Rate: 1}, 2, []time.Duration{1000 * ms, 2000 * ms}},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			p := newPath()
			p.set(test.condition)
			assert.Equal(t, test.want, grants(t, p, test.bytes))
		})
	}
}

func TestGrantFollowsChanges(t *testing.T) {
	const change = 500 * time.Millisecond
	for name, test := range map[string]struct {
		before, after Condition
		want          time.Duration
	}{
		"blackhole ends":             {Condition{State: Blackholed}, Condition{}, change},
		"blackhole becomes a delay":  {Condition{State: Blackholed}, Condition{Delay: time.Minute}, time.Minute},
		"delay becomes a blackhole":  {Condition{Delay: time.Second}, Condition{State: Blackholed}, time.Hour},
		"delay ends":                 {Condition{Delay: time.Minute}, Condition{}, change},
		"delay is less than waited":  {Condition{Delay: time.Minute}, Condition{Delay: time.Millisecond}, change},
		"throttle ends":              {Condition{Rate: 1}, Condition{}, change},
		"throttle is counted afresh": {Condition{Rate: 1}, Condition{Rate: 100}, change + slice},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			p := newPath()
			p.set(test.before)
			time.AfterFunc(change, func() { p.set(test.after) })
			time.AfterFunc(time.Hour, func() { p.set(Condition{}) })
			start := time.Now()
			granted, ok := p.grant(t.Context().Done(), start, 5)
			require.True(t, ok)
			assert.Equal(t, 5, granted)
			assert.Equal(t, test.want, time.Since(start))
		})
	}
}

func TestGrantEndsWithConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPath()
		p.set(Condition{State: Blackholed})
		done := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(done) })
		_, ok := p.grant(done, time.Now(), 1)
		assert.False(t, ok)
		assert.False(t, p.awaitOpen(done))
	})
}

func TestThrottleIsSharedByConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPath()
		p.set(Condition{Rate: 1000})
		start := time.Now()
		finished := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				grants(t, p, 500)
				finished <- time.Since(start)
			}()
		}
		<-finished
		assert.Equal(t, time.Second, <-finished)
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		done := make(chan struct{})
		for range maxQueued {
			require.True(t, q.push(done, []byte{1}))
		}
		pushed := make(chan bool)
		go func() { pushed <- q.push(done, []byte{1}) }()
		synctest.Wait()
		select {
		case <-pushed:
			t.Fatal("a full queue took more")
		default:
		}
		_, ok := q.pop(done)
		require.True(t, ok)
		assert.True(t, <-pushed)

		go func() { pushed <- q.push(done, []byte{1}) }()
		synctest.Wait()
		close(done)
		assert.False(t, <-pushed, "push outlived the connection")
	})
}

func TestQueueKeepsOrderAndFirstEnd(t *testing.T) {
	q := newQueue()
	done := make(chan struct{})
	require.True(t, q.push(done, []byte("a")))
	require.True(t, q.push(done, []byte("b")))
	q.finish(finished)
	q.finish(broken)
	for _, want := range []chunk{{data: []byte("a")}, {data: []byte("b")}, {end: finished}} {
		got, ok := q.pop(done)
		require.True(t, ok)
		assert.Equal(t, want.data, got.data)
		assert.Equal(t, want.end, got.end)
	}
}

// TestTransmit loses everything for a time: what was sent first goes on with its next
// retransmission, and what was sent behind it goes with it.
func TestTransmit(t *testing.T) {
	const ms = time.Millisecond
	for outage, want := range map[time.Duration]time.Duration{
		0: 0, 100 * ms: 200 * ms, 500 * ms: 600 * ms, 10 * time.Second: 12600 * ms,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPath()
			start := time.Now()
			if outage > 0 {
				p.set(Condition{Loss: 1})
				time.AfterFunc(outage, func() { p.set(Condition{}) })
			}
			var recovered time.Time
			for _, sent := range []time.Time{start, start.Add(want / 2)} {
				require.True(t, p.transmit(t.Context().Done(), sent, &recovered, nothing))
				assert.Equal(t, want, time.Since(start), outage)
			}
		})
	}
}

// TestTransmitLosesAShare counts what arrives at once.
func TestTransmitLosesAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPath()
		p.set(Condition{Loss: 0.2})
		atOnce := 0
		for range 1000 {
			time.Sleep(time.Minute)
			sent := time.Now()
			require.True(t, p.transmit(t.Context().Done(), sent, new(time.Time), nothing))
			if time.Since(sent) == 0 {
				atOnce++
			}
		}
		assert.InDelta(t, 800, atOnce, 100)
	})
}

func TestTransmitEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPath()
		p.set(Condition{Loss: 1})
		done := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(done) })
		assert.False(t, p.transmit(done, time.Now(), new(time.Time), nothing))
	})
}

func nothing() int { return 0 }

// TestTransmitSeesWhatIsBehind sends a second segment, which arrives, before the first times out.
func TestTransmitSeesWhatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPath()
		p.set(Condition{Loss: 1})
		start := time.Now()
		time.AfterFunc(50*time.Millisecond, func() { p.set(Condition{}) })
		behind := func() int {
			if time.Since(start) < 100*time.Millisecond {
				return 0
			}
			return 1
		}
		require.True(t, p.transmit(t.Context().Done(), start, new(time.Time), behind))
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
	})
}
