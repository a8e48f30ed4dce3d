package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBadUsage(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--count=0"}, "--count is 0 and --parallel 1: both must be at least 1"},
		{[]string{"--parallel=-1"}, "both must be at least 1"},
		{[]string{"--run=("}, "--run: error parsing regexp"},
		{[]string{"leases"}, `the suite has no package "leases": its packages are snapshot, examples`},
		{[]string{"--suite=kafka"}, `there is no suite "kafka": the suites are etcd, dependents`},
		{[]string{"--suite=dependents", "lease"}, `the suite has no package "lease": its packages are github.com/coredns`},
		{[]string{"--nosuch"}, "flag provided but not defined: -nosuch"},
		{[]string{"--log", filepath.Join("nosuch", "file")}, "--log: open nosuch"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			assert.Equal(t, exitUsage, run(t.Context(), tt.args, &stdout, &stderr))
			assert.Empty(t, stdout.String())
			assert.Contains(t, stderr.String(), tt.want)
		})
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"--help"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "Packages of etcd: snapshot examples naming")
	require.Contains(t, stderr.String(), "Packages of dependents: github.com/coredns/coredns/plugin/etcd")
	require.Contains(t, stderr.String(), "-official")
}

// TestElsewhere runs the program in a directory that is not its own.
func TestElsewhere(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Chdir(t.TempDir())
	for _, args := range [][]string{nil, {"--official"}} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitUsage, run(t.Context(), args, &stdout, &stderr))
		require.Contains(t, stderr.String(), "run it in its own directory")
	}
	leftover, err := filepath.Glob(filepath.Join(temporary, "quorate-*"))
	require.NoError(t, err)
	require.Empty(t, leftover)
}

// TestSuite runs a small part of the suite.
func TestSuite(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	var stdout, stderr bytes.Buffer
	args := []string{"--count=2", "--run=^ExampleKV_put$", "--log=" + log, "examples"}
	require.Equal(t, exitOK, run(t.Context(), args, &stdout, &stderr), "%s%s", &stdout, &stderr)
	require.Equal(t, 2, strings.Count(stdout.String(), "etcd's client suite v3.7.3 over Quorate\n"))
	require.Equal(t, 2, strings.Count(stdout.String(), "\nall                         1      0       0"), stdout.String())
	content, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(content), "--- PASS: ExampleKV_put"))
}

// TestNoneOfThatName is a run without a test.
func TestNoneOfThatName(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"--run=^TestNosuch$", "snapshot"}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "no test passed")
	require.NotContains(t, stdout.String(), "FAIL")
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	pressed := errors.New("Ctrl-C")
	stdout := writerFunc(func(p []byte) (int, error) {
		cancel(pressed) // the head of the table
		return len(p), nil
	})
	var stderr bytes.Buffer
	require.Equal(t, exitUsage, run(ctx, []string{"snapshot"}, stdout, &stderr))
	require.Equal(t, "conformance: interrupted: Ctrl-C\n", stderr.String())
}

// TestLogFails ends the tests when what they print cannot be kept.
func TestLogFails(t *testing.T) {
	full := errors.New("disk full")
	b := build{suite: etcdSuite, dir: t.TempDir()}
	opts := options{selection: selection{suite: etcdSuite, packages: etcdSuite.packages[:1]}, parallel: 1}
	_, err := b.round(t.Context(), opts, streams{
		stdout: io.Discard, stderr: io.Discard,
		log: writerFunc(func([]byte) (int, error) { return 0, full }),
	})
	require.ErrorIs(t, err, full)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
