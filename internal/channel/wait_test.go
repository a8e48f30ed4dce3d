package channel

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
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

// A token that a call gets after its source failed, or that the program gives, ends the pause of a stream.
func TestATokenEndsAPause(t *testing.T) {
	for name, given := range map[string]Login{"fetched": {}, "given": {Token: "another"}} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			began := time.Now()
			var login atomic.Pointer[Login]
			login.Store(&Login{FromSource: true})
			c := newTestChannel(t, Config{Endpoints: []string{"a"}, Login: func() Login { return *login.Load() }, TokenSource: func(context.Context) (string, error) {
				if time.Since(began) < time.Minute {
					return "", errGone
				}
				return "token", nil
			}})
			time.AfterFunc(time.Minute, func() {
				if given.Token == "" {
					assert.NoError(t, c.Authenticate(t.Context()))
					return
				}
				login.Store(&given)
				c.LoginChanged()
			})
			for retrier := watchRetrier(c); c.tokens.isMissing(); {
				_, err := watch(t.Context(), retrier)
				require.NoError(t, retrier.Next(t.Context(), err))
			}
			assert.LessOrEqual(t, time.Since(began), time.Minute+wakeSpread)
		})
	}
}

// An endpoint that flaps does not cause bursts of waiting calls.
func TestFlappingEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := rangeRetrier(lazy).Endless()
		stop := make(chan struct{})
		go func() {
			tick := time.Tick(5 * time.Millisecond)
			for {
				select {
				case <-tick:
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

// A call continues soon after an election, however long its pauses are, and however short its time is.
func TestElectionEndsAPause(t *testing.T) {
	for _, election := range []time.Duration{time.Second, 7 * time.Second} {
		grpctest.Bubble(t, election.String(), func(t *testing.T) {
			conn := new(electionConn)
			c := newTestCaller(conn, nil)
			for c.budget.Take() {
			}
			start := time.Now()
			time.AfterFunc(election, func() {
				conn.led.Store(true)
				improve(c)
			})
			require.NoError(t, rangeOn(grpctest.Within(t, 2*election), c))
			assert.Less(t, time.Since(start), election+wakeSpread+wakeSpacing)
		})
	}
}

// An improvement counts although the pause ends before it could end it.
func TestImprovementAtTheEndOfAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := failing(t)
		time.AfterFunc(time.Nanosecond, retrier.c.monitor.NotifyImproved)
		improved := must(retrier.wait(t.Context(), 2*time.Nanosecond, errGone))
		assert.True(t, improved)
	})
}

// worked returns a Retrier of endless work, with long backoffs, whose latest stream worked and broke.
func worked(t *testing.T, quiet bool) *Retrier {
	t.Helper()
	retrier := rangeRetrier(lazy).Endless()
	retrier.opened = retrier.next(newAttempt(t))
	retrier.Progress()
	if quiet {
		retrier.opened.marks.Store(markQuiet)
	}
	return retrier
}

// pauseOf returns how long Next waits.
func pauseOf(t *testing.T, retrier *Retrier) time.Duration {
	t.Helper()
	start := time.Now()
	require.NoError(t, retrier.Next(t.Context(), errGone))
	return time.Since(start)
}

func TestStreamThatWorkedIsReopenedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := worked(t, false)
		assert.Zero(t, pauseOf(t, retrier))
		assert.GreaterOrEqual(t, pauseOf(t, retrier), 59*time.Second, "the second failure in a row backs off")
		retrier.Progress()
		assert.Zero(t, pauseOf(t, retrier))
	})
}

func TestQuietStreamsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sum time.Duration
		for range 100 {
			pause := pauseOf(t, worked(t, true))
			assert.Less(t, pause, reopenSpread)
			sum += pause
		}
		assert.InDelta(t, reopenSpread/2, sum/100, float64(reopenSpread/5))
	})
}

func TestCutStreamIsNotSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := worked(t, true)
		retrier.opened.Cut(errGone)
		assert.Zero(t, pauseOf(t, retrier))
	})
}

// A server that ends each stream just after it worked is asked less and less often.
func TestStreamsThatBreakSoonBackOff(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *recorder) {
		cluster.On("Watch", func(call *fakeetcd.Call) {
			assert.NoError(t, call.Send(&pb.WatchResponse{Created: true}))
			call.Answer(nil, errGone)
		})
		retrier := watchRetrier(c)
		start, opened := time.Now(), 0
		for ; opened < 2000 && time.Since(start) < 10*time.Second; opened++ {
			if opened == eagerFailures {
				assert.Less(t, time.Since(start), 2*reopenSpread, "the first are reopened soon")
			}
			ws := must(watch(t.Context(), retrier))
			retrier.Progress()
			_, err := ws.Recv()
			require.NoError(t, retrier.Next(t.Context(), err))
		}
		assert.Less(t, opened, 60)
	})
}

// A stream without tokens in the budget waits about as long as it has failed, 12 s at most. One whose login was wrong needs none.
func TestStreamsWithoutBudgetBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := worked(t, false)
		for retrier.c.budget.Take() {
		}
		assert.Zero(t, pauseOf(t, retrier), "it worked")
		retrier.lost, retrier.policy.MaxBackoff = true, time.Second
		start := time.Now()
		require.NoError(t, retrier.Pause(t.Context(), rpctypes.ErrGRPCAuthFailed))
		assert.Less(t, time.Since(start), throttledBackoff/2)
		for range 10 {
			want := min(max(time.Since(retrier.since), minThrottled), maxThrottled)
			pause := pauseOf(t, retrier)
			assert.GreaterOrEqual(t, pause, want/2)
			assert.LessOrEqual(t, pause, want*3/2)
		}
	})
}

func TestWakeEndsTheSpread(t *testing.T) {
	for name, wake := range map[string]func(*Retrier){
		"during it": func(retrier *Retrier) { time.AfterFunc(time.Nanosecond, retrier.Wake) },
		"before it": (*Retrier).Wake,
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			for range 20 {
				retrier := worked(t, true)
				wake(retrier)
				assert.LessOrEqual(t, pauseOf(t, retrier), time.Nanosecond)
			}
		})
	}
}

// A Wake before the stream worked has no effect on the next one.
func TestWakeIsForgottenWhenAStreamWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var longest time.Duration
		for range 20 {
			retrier := worked(t, true)
			retrier.Wake()
			retrier.Progress()
			longest = max(longest, pauseOf(t, retrier))
		}
		assert.Greater(t, longest, reopenSpread/2)
	})
}

func TestWakeEndsNoBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := failing(t)
		time.AfterFunc(time.Second, retrier.Wake)
		assert.GreaterOrEqual(t, pauseOf(t, retrier), 59*time.Second)
	})
}
