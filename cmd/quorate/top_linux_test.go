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

// Keys come from the terminal of the session if standard input is none, as in a script.
func TestTopReadsKeysOfTheSession(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	defer keys.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, os.Args[0], "top", "--endpoints", "127.0.0.1:1")
	cmd.Env = append(os.Environ(), runAsProgram+"=1")
	cmd.Stdout, cmd.Stderr = terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	require.NoError(t, cmd.Start())
	require.NoError(t, terminal.Close())
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
