package locks

import (
	"bufio"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
