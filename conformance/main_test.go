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

// program runs the program, whose exit status must be this.
func program(t *testing.T, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	require.Equal(t, status, run(t.Context(), args, &out, &errs), "%s%s", &out, &errs)
	return out.String(), errs.String()
}

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
			stdout, stderr := program(t, exitUsage, tt.args...)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, tt.want)
		})
	}
}

func TestHelp(t *testing.T) {
	_, stderr := program(t, exitOK, "--help")
	for _, want := range []string{"Packages of etcd: snapshot examples naming", "Packages of dependents: github.com/coredns/coredns/plugin/etcd", "-official"} {
		require.Contains(t, stderr, want)
	}
}

// TestElsewhere runs the program in a directory that is not its own.
func TestElsewhere(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Chdir(t.TempDir())
	for _, args := range [][]string{nil, {"--official"}} {
		_, stderr := program(t, exitUsage, args...)
		require.Contains(t, stderr, "run it in its own directory")
	}
	leftover, err := filepath.Glob(filepath.Join(temporary, "quorate-*"))
	require.NoError(t, err)
	require.Empty(t, leftover)
}

// TestSuite runs a small part of the suite.
func TestSuite(t *testing.T) {
	stdout, _ := program(t, exitOK, "--run=^ExampleKV_put$", "examples")
	require.Contains(t, stdout, "etcd's client suite v3.7.3 over Quorate\n")
	require.Contains(t, stdout, "\nall                         1      0       0\n")
}

// TestNoneOfThatName is a run without a test.
func TestNoneOfThatName(t *testing.T) {
	stdout, _ := program(t, exitFailed, "--run=^TestNosuch$", "snapshot")
	require.Contains(t, stdout, "no test passed")
	require.NotContains(t, stdout, "FAIL")
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
