package channel

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/retry"
)

// lazy is a policy with pauses far longer than any test.
var lazy = retry.Policy{InitialBackoff: time.Minute, MaxBackoff: time.Minute, Jitter: 0.01}

// improve makes an endpoint serve again.
func improve(c *Caller) { c.monitor.NotifyImproved() }

// failing returns a Retrier of endless work that has failed once, and has long pauses.
func failing(t *testing.T) *Retrier {
	t.Helper()
	retrier := rangeRetrier(lazy).Endless()
	require.NoError(t, retrier.Next(t.Context(), errGone))
	return retrier
}

func TestImprovementEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := failing(t)
		time.AfterFunc(700*time.Millisecond, func() { improve(retrier.c) })
		start := time.Now()
		require.NoError(t, retrier.Next(t.Context(), rpctypes.ErrGRPCNoLeader))
		assert.GreaterOrEqual(t, time.Since(start), 700*time.Millisecond)
		assert.LessOrEqual(t, time.Since(start), 700*time.Millisecond+wakeSpread)
	})
}

// An improvement during the failed attempt is not missed.
func TestAnImprovementDuringAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := failing(t)
		time.Sleep(wakeSpacing)
		retrier.next(newAttempt(t))
		improve(retrier.c)
		start := time.Now()
		require.NoError(t, retrier.Next(t.Context(), rpctypes.ErrGRPCNoLeader))
		assert.LessOrEqual(t, time.Since(start), wakeSpread)
	})
}

// An endpoint that flaps does not cause bursts of waiting calls.
func TestFlappingEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := rangeRetrier(lazy).Endless()
		stop := make(chan struct{})
		go func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					improve(retrier.c)
				case <-stop:
					return
				}
			}
		}()
		start, attempts := time.Now(), 0
		for ; time.Since(start) < time.Minute; attempts++ {
			retrier.next(newAttempt(t))
			require.NoError(t, retrier.Next(t.Context(), rpctypes.ErrGRPCNoLeader))
		}
		close(stop)
		assert.LessOrEqual(t, attempts, int(time.Minute/wakeSpacing)+1)
		assert.Greater(t, attempts, int(time.Minute/(wakeSpacing+2*wakeSpread)), "none of them waits long")
	})
}

// Waiting calls do not resume at the same instant.
func TestWakingIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCaller(nil, nil)
		var at [50]time.Duration
		start := time.Now()
		for i := range at {
			go func() {
				retrier := c.Retrier("/s/m").Endless()
				retrier.policy = lazy
				_ = retrier.Next(t.Context(), errGone) // at once
				if retrier.Next(t.Context(), errGone) == nil {
					at[i] = time.Since(start)
				}
			}()
		}
		time.Sleep(wakeSpacing)
		start = start.Add(wakeSpacing)
		synctest.Wait()
		improve(c)
		time.Sleep(time.Second)
		synctest.Wait()
		seen := map[time.Duration]bool{}
		for _, d := range at {
			assert.Less(t, d, wakeSpread)
			seen[d] = true
		}
		assert.Greater(t, len(seen), len(at)/2)
	})
}

// electionConn has no leader until the election ends.
type electionConn struct {
	grpc.ClientConnInterface
	led atomic.Bool
}

func (c *electionConn) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	if c.led.Load() {
		return nil
	}
	return rpctypes.ErrGRPCNoLeader
}

// A call continues soon after an election, however long its pauses are.
func TestElectionEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := new(electionConn)
		c := newTestCaller(conn, nil)
		start := time.Now()
		const election = 7 * time.Second
		time.AfterFunc(election, func() {
			conn.led.Store(true)
			improve(c)
		})
		require.NoError(t, rangeOn(t.Context(), c))
		assert.Less(t, time.Since(start), election+wakeSpread+wakeSpacing)
	})
}
