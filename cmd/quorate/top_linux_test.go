package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// onTerminal starts the program on a terminal, which is that of its session, with no other standard input. It returns the
// other side of the terminal: reads return what the terminal shows, writes are keys.
func onTerminal(t *testing.T, environment string, args ...string) (*exec.Cmd, *os.File) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = keys.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), runAsProgram+"=1", environment)
	cmd.Stdout, cmd.Stderr = terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	require.NoError(t, cmd.Start())
	require.NoError(t, terminal.Close())
	return cmd, keys
}

// Keys come from the terminal of the session if standard input is none, as in a script.
func TestTopReadsKeysOfTheSession(t *testing.T) {
	cmd, keys := onTerminal(t, "TERM=xterm", "top", "--endpoints", "127.0.0.1:1")
	shown, seen := bufio.NewReader(keys), ""
	for !strings.Contains(seen, "no answer") {
		b, err := shown.ReadByte()
		require.NoError(t, err, seen)
		seen += string(b)
	}
	_, _ = keys.WriteString("q")      // else the copy does not end
	_, _ = io.Copy(io.Discard, shown) // until the program has left the terminal
	assert.NoError(t, cmd.Wait())
}

// A terminal that cannot move its cursor, such as that of an editor, gets one table.
func TestTopOnADumbTerminal(t *testing.T) {
	cmd, shown := onTerminal(t, "TERM=dumb", "top", "--endpoints", "127.0.0.1:1")
	table, _ := io.ReadAll(shown) // fails when the program has left the terminal
	assert.Error(t, cmd.Wait(), "nothing answers")
	assert.Contains(t, string(table), "127.0.0.1:1")
	assert.NotContains(t, string(table), "\x1b")
}
