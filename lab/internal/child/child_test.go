//go:build unix

package child_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab/internal/child"
)

// soon bounds every wait for what must happen.
const soon = 5 * time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func awaitExit(t *testing.T, p *child.Process) {
	t.Helper()
	select {
	case <-p.Exited():
	case <-time.After(soon):
		t.Fatalf("process %d lives on", p.PID())
	}
}

func TestStartFails(t *testing.T) {
	_, err := child.Start(exec.Command("/nonexistent/program"))
	require.ErrorIs(t, err, os.ErrNotExist)
	p, err := child.Start(exec.Command("true"))
	require.NoError(t, err)
	awaitExit(t, p)
}

func TestEnd(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		end    func(*child.Process) error
		want   string
	}{
		"by itself":        {script: "exit 0", want: "exit status 0"},
		"with a failure":   {script: "exit 3", want: "exit status 3"},
		"killed":           {script: "exec sleep 600", end: (*child.Process).Kill, want: "signal: killed"},
		"terminated":       {script: "exec sleep 600", end: (*child.Process).Terminate, want: "signal: terminated"},
		"frozen, killed":   {script: "exec sleep 600", end: freezeThen((*child.Process).Kill), want: "signal: killed"},
		"frozen, awakened": {script: "exec sleep 600", end: freezeThen(terminateAndContinue), want: "signal: terminated"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := child.Start(exec.Command("sh", "-c", test.script))
			require.NoError(t, err)
			require.Positive(t, p.PID())
			if test.end != nil {
				require.True(t, p.Alive())
				require.NoError(t, test.end(p))
			}
			awaitExit(t, p)
			require.EqualError(t, p.Cause(), test.want)

			assert.False(t, p.Alive())
			assert.NoError(t, p.Kill(), "it is gone")
			assert.NoError(t, p.Terminate(), "it is gone")
			assert.NoError(t, p.Continue(), "it is gone")
		})
	}
}

func freezeThen(end func(*child.Process) error) func(*child.Process) error {
	return func(p *child.Process) error {
		if err := p.Freeze(); err != nil {
			return err
		}
		return end(p)
	}
}

func terminateAndContinue(p *child.Process) error {
	if err := p.Terminate(); err != nil {
		return err
	}
	return p.Continue()
}
