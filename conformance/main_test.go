package main

import (
	"bytes"
	"context"
	"errors"
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
		{[]string{"--parallel=-1"}, "--parallel is -1: it must be at least 1"},
		{[]string{"--run=("}, "--run: error parsing regexp"},
		{[]string{"leases"}, `the suite has no package "leases": its packages are snapshot, examples`},
		{[]string{"--suite=kafka"}, `there is no suite "kafka": the suites are etcd, dependents`},
		{[]string{"--suite=dependents", "lease"}, `the suite has no package "lease": its packages are github.com/coredns`},
		{[]string{"--nosuch"}, "flag provided but not defined: -nosuch"},
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
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"--run=^ExampleKV_put$", "examples"}, &stdout, &stderr), "%s%s", &stdout, &stderr)
	require.Contains(t, stdout.String(), "etcd's client suite v3.7.3 over Quorate\n")
	require.Contains(t, stdout.String(), "\nall                         1      0       0\n")
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

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
