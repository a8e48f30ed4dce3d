package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness/faults"
)

// asProgram makes the test program behave as a program of its own; see TestMain.
const asProgram = "QUORATE_TEST_AS"

func TestMain(m *testing.M) {
	lab.Main()
	switch os.Getenv(asProgram) {
	case "quorate-lab":
		main()
	case "waiter":
		ctx := cli.UntilSignal()
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
	ctx := grpctest.Within(t, 5*time.Minute)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), asProgram+"="+as, "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	return cmd, bufio.NewScanner(out)
}

// execRoot runs a command line in this process.
func execRoot(ctx context.Context, run faults.Runner, args ...string) (status int, stdout, stderr string) {
	return clitest.Exec(ctx, newRootCommand(run), args...)
}

// TestBadUsage starts no cluster.
func TestBadUsage(t *testing.T) {
	for args, want := range map[string]string{
		"faults --fault flood":             `unknown fault "flood": the faults are kill, stop, blackhole, partition, slow, leader-kill`,
		"faults --fault=":                  "--fault needs at least one name",
		"faults --duration 0":              "--ttl and --election must be more than 0",
		"faults --duration -1s":            "no time, and no number of callers, can be negative",
		"faults --members 2":               "the number of members must be 3 to 9, so that a majority outlives the loss of one; it is 2",
		"faults --callers -1":              "no time, and no number of callers, can be negative",
		"faults --compare --client nobody": `unknown client "nobody": the clients are official, official-tuned, quorate`,
		"faults extra":                     `unknown command "extra" for "quorate-lab faults"`,
		"faults --nosuch":                  "unknown flag: --nosuch\nSee \"quorate-lab faults --help\"",

		"soak --duration 0":   "--duration must be more than 0",
		"soak --duration -1s": "--duration must be more than 0",
		"soak leases":         `unknown command "leases" for "quorate-lab soak"`,

		"up --members 0": "--members must be 1 to 9; it is 0",
	} {
		t.Run(args, func(t *testing.T) {
			status, stdout, stderr := execRoot(t.Context(), faults.Run, strings.Fields(args)...)
			assert.Equal(t, cli.Failure, status)
			assert.Empty(t, stdout)
			assert.True(t, strings.HasPrefix(stderr, "quorate-lab: "), stderr)
			assert.Contains(t, stderr, want)
		})
	}
}

func TestHelpOfEveryCommand(t *testing.T) {
	clitest.CheckHelp(t, newRootCommand(faults.Run))
}

func TestVersion(t *testing.T) {
	status, stdout, _ := execRoot(t.Context(), faults.Run, "version")
	assert.Equal(t, cli.OK, status)
	assert.Contains(t, stdout, runtime.Version())
	assert.Contains(t, stdout, "etcd server 3.")

	status, flag, _ := execRoot(t.Context(), faults.Run, "--version")
	assert.Equal(t, cli.OK, status)
	assert.Equal(t, stdout, flag)
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

// TestNoReader closes both outputs of the program before it writes to them.
func TestNoReader(t *testing.T) {
	cmd, _ := program(t, "quorate-lab", t.TempDir(), "faults", "--members", "2")
	closed, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	require.Error(t, cmd.Wait())
	assert.Equal(t, cli.Failure, cmd.ProcessState.ExitCode(), "no signal ended it")
}
