package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// session is a command that runs until it is interrupted.
type session struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	stdin  io.Writer
	lines  chan string // of its standard output, closed at its end
	stderr bytes.Buffer
}

// begin starts a command. It is killed at the end of the test at the latest.
func (e etcdctl) begin(t *testing.T, args ...string) *session {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &session{t: t, name: "etcdctl " + strings.Join(args, " "), cmd: e.command(ctx, args...), lines: make(chan string, 1000)}
	s.cmd.Stderr = &s.stderr
	in, err := s.cmd.StdinPipe()
	require.NoError(t, err)
	s.stdin = in
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	go func() {
		defer close(s.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range s.lines { // until its end
		}
		_ = s.cmd.Wait()
	})
	return s
}

// expect waits for the next lines of the standard output.
func (s *session) expect(want ...string) {
	s.t.Helper()
	for _, line := range want {
		select {
		case got, ok := <-s.lines:
			require.True(s.t, ok, "%s ended, want line %q", s.name, line)
			require.Equal(s.t, line, got, s.name)
		case <-time.After(soon):
			require.FailNow(s.t, "no output", "%s: no line for %v, want %q", s.name, soon, line)
		}
	}
}

// silent fails the test if the command has printed anything.
func (s *session) silent() {
	s.t.Helper()
	select {
	case line, ok := <-s.lines:
		require.FailNow(s.t, "unexpected output", "%s printed %q (it goes on: %t)", s.name, line, ok)
	default:
	}
}

// say writes a line to the standard input.
func (s *session) say(line string) {
	s.t.Helper()
	_, err := io.WriteString(s.stdin, line+"\n")
	require.NoError(s.t, err, s.name)
}

// signal sends a signal.
func (s *session) signal(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(sig), s.name)
}

// end waits for the end of a command that prints no more, and compares its exit status.
func (s *session) end(status int) {
	s.t.Helper()
	timeout := time.After(soon)
	select {
	case line, ok := <-s.lines:
		require.False(s.t, ok, "%s printed %q, want its end", s.name, line)
	case <-timeout:
		require.FailNow(s.t, "no end", "%s has not ended for %v", s.name, soon)
	}
	_ = s.cmd.Wait() // its result is the exit status
	require.Equal(s.t, status, s.cmd.ProcessState.ExitCode(), "%s\nstderr: %s", s.name, &s.stderr)
}

// stop ends a command by a signal, of which it makes a success.
func (s *session) stop(sig syscall.Signal) {
	s.t.Helper()
	s.signal(sig)
	s.end(0)
}
