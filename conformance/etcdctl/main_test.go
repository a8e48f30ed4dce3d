package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
)

// soon bounds every wait for what must happen; a passing test waits a small part
// of it.
const soon = 5 * time.Minute

// binary is the etcdctl that the tests run.
var binary string

func TestMain(m *testing.M) {
	lab.Main()
	dir, err := os.MkdirTemp("", "quorate-etcdctl-")
	if err == nil {
		binary = filepath.Join(dir, "etcdctl")
		err = compile(binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		_ = os.RemoveAll(dir)
		os.Exit(status)
	}))
}

// compile builds this module's program, as a user does.
func compile(binary string) error {
	cmd := exec.Command("go", "build", "-o", binary, ".")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// TestOverQuorate proves what the other tests are about: the program holds Quorate,
// and its official client is a replacement.
func TestOverQuorate(t *testing.T) {
	info, err := buildinfo.ReadFile(binary)
	require.NoError(t, err)
	replaced := map[string]bool{}
	for _, dep := range info.Deps {
		replaced[dep.Path] = dep.Replace != nil
	}
	require.True(t, replaced["go.etcd.io/etcd/client/v3"], "%v", info.Deps)
	require.True(t, replaced["github.com/quorate/quorate"], "%v", info.Deps)
	require.Contains(t, replaced, "go.etcd.io/etcd/etcdctl/v3")
	require.False(t, replaced["go.etcd.io/etcd/etcdctl/v3"], "etcdctl is not etcd's own")
}

// start starts a cluster for a test and its subtests. It waits for what etcd still
// changes by itself in the first second: the version of its storage, which snapshots
// and status report.
func start(t *testing.T, cfg lab.Config) *lab.Cluster {
	t.Helper()
	cfg.Dir = t.TempDir()
	c, err := lab.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	for _, m := range c.Members() {
		eventually(t, func() bool {
			status, err := m.Status(t.Context())
			return err == nil && status.GetStorageVersion() == "3.7.0"
		})
	}
	return c
}

// etcdctl is the program with the flags that all its commands get.
type etcdctl struct {
	flags []string
}

// on returns etcdctl for the endpoints of a cluster.
func on(c *lab.Cluster, flags ...string) etcdctl {
	return etcdctl{append([]string{"--endpoints=" + strings.Join(c.Endpoints(), ",")}, flags...)}
}

// outcome is what a command left behind.
type outcome struct {
	stdout, stderr string
	status         int
}

// run runs a command to its end.
func (e etcdctl) run(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	cmd := e.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	require.NoError(t, ctx.Err(), "etcdctl %s did not end\nstdout: %sstderr: %s", strings.Join(args, " "), &stdout, &stderr)
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		require.NoError(t, err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// ok runs a command that must succeed, and returns its standard output.
func (e etcdctl) ok(t *testing.T, args ...string) string {
	t.Helper()
	got := e.run(t, "", args...)
	require.Zero(t, got.status, "etcdctl %s\nstdout: %sstderr: %s", strings.Join(args, " "), got.stdout, got.stderr)
	return got.stdout
}

// command returns a command with the environment of the test, without what
// configures etcdctl.
func (e etcdctl) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, slices.Concat(args[:1], e.flags, args[1:])...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "ETCDCTL_") })
	return cmd
}

// eventually waits until a condition holds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(soon); !holds(); time.Sleep(10 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "what is waited for has not happened for %v", soon)
	}
}
