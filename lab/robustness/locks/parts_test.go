package locks

import (
	"bufio"
	"context"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

func TestConfigNamesWhatIsWrong(t *testing.T) {
	_, err := Run(t.Context(), Config{Config: robustness.Config{Duration: -1, Members: 2}, Contenders: -1, Locks: 1000, SettleTimeout: -1})
	for _, want := range []string{
		"the duration must be more than 0", "the number of members must be 3 to 9", "the number of contenders must be 1 to 200; it is -1",
		"the number of locks must be 1 to 100; it is 1000", "the time to settle must be more than 0",
	} {
		assert.ErrorContains(t, err, want)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, err := Run(ctx, Config{Config: robustness.Config{Dir: t.TempDir()}})
	require.NoError(t, err)
	assert.True(t, result.Interrupted)
	assert.Equal(t, "nothing was checked\n", result.String())
}

func TestPlansCoverEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[string]int{}
	for range 2000 {
		p := newPlan(rng, 4)
		for what, is := range map[string]bool{
			"nothing": p.incident == nothing, "paused waiting": p.incident == pausedWaiting, "paused holding": p.incident == pausedHolding,
			"delayed": p.incident == delayed, "orphaned": p.incident == orphaned, "closed": p.incident == closed, "crashed": p.incident == crashed,
			"lock": p.style == lockcheck.Lock, "try": p.style == lockcheck.TryLock, "campaign": p.style == lockcheck.Campaign,
			"impatient": p.patience < patience, "lost": p.lost, "delivered": !p.lost, "again": p.again,
			"kept": p.parting == keep, "session closed": p.parting == closeSession, "session orphaned": p.parting == orphanSession,
			"outlast": p.outlast, "first lock": p.lock == 0, "last lock": p.lock == 3,
		} {
			if is {
				seen[what]++
			}
		}
		assert.Equal(t, p.lock%2 == 1, p.style == lockcheck.Campaign, "elections and mutexes have names of their own")
		assert.Less(t, p.strike, len(p.gaps))
		if p.incident == pausedWaiting {
			assert.Greater(t, p.patience, p.approach+p.pause, "who is paused while it waits still waits when it is back")
		}
	}
	assert.Len(t, seen, 20, "%v", seen)
}

// echo answers each line with itself until the test ends.
func echo(t *testing.T) (endpoint string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					c.Write(append(lines.Bytes(), '\n'))
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

func TestGatewayPausesAndResumes(t *testing.T) {
	gate, err := openGateway([]string{echo(t), echo(t)})
	require.NoError(t, err)
	defer func() { assert.NoError(t, gate.close()) }()
	for _, endpoint := range gate.endpoints() {
		c, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "http://"))
		require.NoError(t, err)
		defer c.Close()
		answers := bufio.NewReader(c)
		say := func(what string) {
			_, err := c.Write([]byte(what + "\n"))
			require.NoError(t, err)
		}
		say("one")
		line, err := answers.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "one\n", line)

		gate.pause()
		say("two")
		require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		_, err = answers.ReadString('\n')
		require.ErrorContains(t, err, "timeout", "nothing comes through")

		gate.resume(false)
		require.NoError(t, c.SetReadDeadline(time.Time{}))
		line, err = answers.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "two\n", line, "what was withheld is delivered")

		gate.pause()
		say("three")
		gate.resume(true)
		_, err = answers.ReadString('\n')
		require.Error(t, err, "the connection is lost, and what was withheld with it")
		again, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "http://"))
		require.NoError(t, err)
		again.Close()
	}
}

func TestGatewayToNowhere(t *testing.T) {
	_, err := openGateway([]string{echo(t), "http://bad host"})
	require.ErrorContains(t, err, "bad host")
}

func TestResultShowsTheEvidence(t *testing.T) {
	r := Result{
		Outcome:    robustness.Outcome{Members: 3, Seed: 7, Duration: time.Minute, Revisions: 99, Tally: fault.Tally{Faults: map[string]int{"kill": 2}, Cuts: 5}},
		Contenders: 16,
		Releases:   5,
		Counts:     Counts{Sessions: 9, SessionsFailed: 1, PausedHolding: 4, PausedWaiting: 3, Delayed: 1, Outlasted: 2, Overdue: 1500 * time.Millisecond},
		Attempts:   map[lockcheck.Style]Answers{lockcheck.Lock: {Taken: 3}, lockcheck.TryLock: {Taken: 1, Locked: 2}, lockcheck.Campaign: {Taken: 2, Failed: 4}},
		Writes:     Outcomes{Accepted: 10, Refused: 5, Unknown: 1},
	}
	assert.Equal(t, 6, r.Taken())
	for _, want := range []string{
		"3 members, 16 contenders, seed 7, 1m0s\n", "faults     kill 2, not injected 0, connections cut 5\n", "9 granted, 1 not granted",
		"Lock       taken 3, locked by another 0, failed 0\n", "TryLock    taken 1, locked by another 2, failed 0\n",
		"4 while holding and 1 with a write on its way, of these 2 until the lock had gone; 3 while waiting\n",
		"16 guarded: accepted 10, refused 5, unknown 1\n", "returned 1.5s after their deadlines at most\n", "verdict    every promise was kept\n",
	} {
		assert.Contains(t, r.String(), want)
	}
	r.Verdict.Counts = map[lockcheck.Promise]int{lockcheck.Guarded: 2}
	r.Verdict.Violations = []lockcheck.Violation{{Promise: lockcheck.Guarded, Message: "a write of a former holder"}}
	assert.Contains(t, r.String(), "verdict    2 violations\n  guarded       2\n\nguarded: a write of a former holder\n")
}
