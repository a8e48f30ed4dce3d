package link

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
)

func set(p *path, to Condition) { p.update(func(c *Condition) { *c = to }) }

func TestAwaitFollowsChanges(t *testing.T) {
	const change = 500 * time.Millisecond
	for name, test := range map[string]struct {
		before, after Condition
		want          time.Duration
	}{
		"blackhole ends":            {Condition{Blackholed: true}, Condition{}, change},
		"blackhole becomes a delay": {Condition{Blackholed: true}, Condition{Delay: time.Minute}, time.Minute},
		"delay becomes a blackhole": {Condition{Delay: time.Second}, Condition{Blackholed: true}, time.Hour},
		"delay ends":                {Condition{Delay: time.Minute}, Condition{}, change},
		"delay is less than waited": {Condition{Delay: time.Minute}, Condition{Delay: time.Millisecond}, change},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			p := newPath()
			set(p, test.before)
			time.AfterFunc(change, func() { set(p, test.after) })
			time.AfterFunc(time.Hour, func() { set(p, Condition{}) })
			start := time.Now()
			require.True(t, p.await(t.Context().Done(), start))
			assert.Equal(t, test.want, time.Since(start))
		})
	}
}

func TestAwaitEndsWithConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPath()
		set(p, Condition{Blackholed: true})
		done := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(done) })
		assert.False(t, p.await(done, time.Now()))
	})
}

// A lost segment arrives with a retransmission: after 200 ms, 600 ms, 1,400 ms and so on.
func TestArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPath()
		assert.Equal(t, time.Now(), p.arrival())
		set(p, Condition{Loss: 0.2})
		late := map[time.Duration]int{}
		for range 1000 {
			late[time.Until(p.arrival())]++
		}
		assert.InDelta(t, 800, late[0], 100)
		assert.InDelta(t, 160, late[200*time.Millisecond], 80)
		assert.InDelta(t, 32, late[600*time.Millisecond], 32)
	})
}
