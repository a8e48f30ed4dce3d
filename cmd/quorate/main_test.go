package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/report"
	"github.com/quorate/quorate/lab/scenario"
)

// asProgram makes the test program behave as a program of its own; see TestMain.
const asProgram = "QUORATE_TEST_AS"

func TestMain(m *testing.M) {
	lab.Main()
	switch os.Getenv(asProgram) {
	case "quorate":
		main()
	case "waiter":
		ctx := untilSignal()
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("ending")
		select {} // until the second signal
	default:
		goleak.VerifyTestMain(m)
	}
}

// program returns the test program as another program, with dir for its temporary
// files and its standard output to read from.
func program(t *testing.T, as, dir string, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), asProgram+"="+as, "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	return cmd, bufio.NewScanner(out)
}

// execRoot runs a command line in this process.
func execRoot(ctx context.Context, run scenarioRunner, args ...string) (status int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	root := newRootCommand(newLabCommand(run))
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errOut)
	status = execute(ctx, root)
	return status, out.String(), errOut.String()
}

func TestBadUsage(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"lab", "--fault", "flood"}, `unknown fault "flood": the faults are kill, stop, blackhole, partition, slow, leader-kill, rolling-restart, defrag`},
		{[]string{"lab", "--fault", "kill,"}, `unknown fault "": the faults are kill`},
		{[]string{"lab", "--fault="}, "--fault needs at least one name"},
		{[]string{"lab", "--duration", "soon"}, `invalid argument "soon" for "--duration" flag`},
		{[]string{"lab", "--for", "0"}, "--duration and --timeout must be more than 0"},
		{[]string{"lab", "--duration", "-1s"}, "the time for which a fault is held must be 100ms to 1h0m0s; it is -1s"},
		{[]string{"lab", "--members", "2"}, "the number of members must be 3 to 9, so that a majority outlives the loss of one; it is 2"},
		{[]string{"lab", "--callers", "-1"}, "the number of callers of each kind must be 1 to 1000; it is -1"},
		{[]string{"lab", "--timeout", "1h"}, "the timeout of a call must be more than 0 and at most 10m0s; it is 1h0m0s"},
		{[]string{"lab", "extra"}, `unknown command "extra" for "quorate lab"`},
		{[]string{"lab", "--nosuch"}, "unknown flag: --nosuch\nSee \"quorate lab --help\""},
		{[]string{"nosuch"}, `unknown command "nosuch" for "quorate"`},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			status, stdout, stderr := execRoot(t.Context(), short(t), tt.args...)
			assert.Equal(t, exitFailure, status)
			assert.Empty(t, stdout)
			assert.True(t, strings.HasPrefix(stderr, "quorate: "), stderr)
			assert.Contains(t, stderr, tt.want)
		})
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"help"}} {
		status, stdout, _ := execRoot(t.Context(), short(t), args...)
		assert.Equal(t, exitOK, status)
		assert.Contains(t, stdout, "Examples:\n  quorate lab\n")
	}
	_, stdout, _ := execRoot(t.Context(), short(t))
	for _, want := range []string{"exit status", "--version", "completion "} {
		assert.Contains(t, stdout, want)
	}
	status, stdout, _ := execRoot(t.Context(), short(t), "lab", "--help")
	assert.Equal(t, exitOK, status)
	for _, want := range []string{"--fault", "--duration", "--members", "--json", "rolling-restart", "majority-lost", "--compare", "--out", "Ctrl-C", "exit status", "Examples:"} {
		assert.Contains(t, stdout, want)
	}
}

// All commands: their lines fit, and flags that mean the same have one name.
func TestHelpOfEveryCommand(t *testing.T) {
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		var out bytes.Buffer
		cmd.SetOut(&out)
		require.NoError(t, cmd.Help())
		for line := range strings.Lines(out.String()) {
			assert.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 120, "%s: %s", cmd.CommandPath(), line)
			assert.NotContains(t, line, "--for ", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRootCommand(newLabCommand(short(t))))
}

// --for is --duration.
func TestDurationUnderItsFormerName(t *testing.T) {
	for _, name := range []string{"--for", "--duration"} {
		var asked time.Duration
		run := func(_ context.Context, cfg scenario.Config) (report.Report, error) {
			asked = cfg.Hold
			return report.Report{}, nil
		}
		status, _, stderr := execRoot(t.Context(), run, "lab", name, "7s")
		assert.Equal(t, exitOK, status, stderr)
		assert.Equal(t, 7*time.Second, asked)
		status, stdout, stderr := execRoot(t.Context(), run, "resolve", "static:///a:1", name, "1ms")
		assert.Equal(t, exitOK, status, stderr)
		assert.Contains(t, stdout, "1 endpoint")
	}
}

func TestVersion(t *testing.T) {
	status, stdout, _ := execRoot(t.Context(), short(t), "version")
	assert.Equal(t, exitOK, status)
	assert.Contains(t, stdout, runtime.Version())
	assert.Contains(t, stdout, "etcd server 3.")

	status, flag, _ := execRoot(t.Context(), short(t), "--version")
	assert.Equal(t, exitOK, status)
	assert.Equal(t, stdout, flag)

	assert.Contains(t, versionOf(&debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc123"}, {Key: "vcs.modified", Value: "true"},
		},
	}), "quorate v1.2.3, revision abc123, with local changes\n")
	assert.Contains(t, versionOf(&debug.BuildInfo{}), "quorate (devel)\n")
}

func TestSecondSignalKills(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			cmd, out := program(t, "waiter", t.TempDir())
			require.NoError(t, cmd.Start())
			for _, want := range []string{"ready", "ending"} {
				require.True(t, out.Scan())
				require.Equal(t, want, out.Text())
				require.NoError(t, cmd.Process.Signal(sig))
			}
			require.Error(t, cmd.Wait())
			assert.Equal(t, 128+int(sig), cmd.ProcessState.ExitCode())
		})
	}
}

// TestHangup checks the signal that a closed terminal may send more than once.
func TestHangup(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP) // under nohup the program would inherit that it is ignored
	defer signal.Stop(caught)
	cmd, out := program(t, "waiter", t.TempDir())
	require.NoError(t, cmd.Start())
	require.True(t, out.Scan())
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	require.True(t, out.Scan(), "the program ends in good order")
	require.Equal(t, "ending", out.Text())
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP), "which another one does not disturb")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	assert.Equal(t, 128+int(syscall.SIGTERM), cmd.ProcessState.ExitCode())
}

// TestNobodyReads closes both outputs of the program before it writes to them.
func TestNobodyReads(t *testing.T) {
	cmd, _ := program(t, "quorate", t.TempDir(), "lab", "--members", "2")
	closed, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	require.Error(t, cmd.Wait())
	assert.Equal(t, exitFailure, cmd.ProcessState.ExitCode(), "no signal ended it")
}

func TestProgressIsPlainOutsideATerminal(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	assert.IsType(t, plainLines{}, newProgress(w))
	assert.IsType(t, plainLines{}, newProgress(&bytes.Buffer{}))
}
