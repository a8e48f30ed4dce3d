// Package examples_test runs the programs of examples on a real cluster.
package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/retry"
)

// patience is far above what the test takes; one that hangs is ended by it.
const patience = 10 * time.Minute

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

func TestExamples(t *testing.T) {
	bin := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/quorate/quorate/examples/...").CombinedOutput()
	require.NoError(t, err, "%s", out)
	ctx := labtest.Within(t, patience)
	cluster := labtest.Start(t, lab.Config{Members: 3})
	program := func(name string, args ...string) *exec.Cmd {
		args = append([]string{"--endpoints", strings.Join(cluster.Endpoints(), ",")}, args...)
		return exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	}
	ran := map[string]bool{}
	run := func(name, want string, args ...string) {
		t.Helper()
		ran[name] = true
		cmd := program(name, args...)
		var logs bytes.Buffer
		cmd.Stderr = &logs
		out, err := cmd.Output()
		require.NoError(t, err, "%s: %s%s", name, out, &logs)
		assert.Equal(t, want, string(out), name)
	}
	run("lock", "holds the lock, and has written: true\nholds the lock, and has written: false\n")
	run("election", "ann leads\nann resigns\n", "--name", "ann", "--term", "100ms")
	run("election", "bob leads\nbob resigns\n", "--name", "bob", "--term", "100ms")
	run("unknownoutcome", "counted to 10\n")
	run("unknownoutcome", "counted to 20\n")
	run("service", "the service is SERVING\n")
	quickstart, err := program("quickstart").CombinedOutput()
	require.NoError(t, err, "%s", quickstart)
	assert.Regexp(t, `^examples/quickstart = hello, written at revision \d+: true\ndeleted: 1\n$`, string(quickstart))
	ran["quickstart"] = true
	watches(ctx, t, cluster, program("watch", "--until", "examples/watched/end"))
	ran["watch"] = true
	configs(ctx, t, cluster, func(args ...string) *exec.Cmd { return program("configstore", args...) })
	ran["configstore"] = true
	leaders(ctx, t, cluster, func(name string) *exec.Cmd {
		return program("election", "--name", name, "--term", "1h", "--ttl", "3s")
	})
	controllers(ctx, t, cluster, func(name string) *exec.Cmd { return program("controller", "--name", name, "--ttl", "3s") })
	ran["controller"] = true
	jobQueue(ctx, t, cluster, func(args ...string) *exec.Cmd { return program("jobs", args...) })
	ran["jobs"] = true
	counter(ctx, t, cluster, func(args ...string) *exec.Cmd { return program("counter", args...) })
	ran["counter"] = true
	for name := range ran {
		interrupted(ctx, t, filepath.Join(bin, name))
	}

	programs, err := filepath.Glob(filepath.Join(bin, "*"))
	require.NoError(t, err)
	for _, p := range programs {
		assert.True(t, ran[strings.TrimSuffix(filepath.Base(p), ".exe")], "%s was not run", p)
	}
}

// interrupted runs the example over a server that never answers, and interrupts it.
func interrupted(ctx context.Context, t *testing.T, path string) {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	defer context.AfterFunc(ctx, func() { silent.Close() })()
	cmd := exec.CommandContext(ctx, path, "--endpoints", silent.Addr().String())
	require.NoError(t, cmd.Start())
	conn, err := silent.Accept() // the example handles interrupts before it connects
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	assert.True(t, cmd.ProcessState.Exited(), "%s does not end after an interrupt: %v", path, cmd.ProcessState)
}

// configs changes a configuration while the example follows it and each member is frozen in turn.
func configs(ctx context.Context, t *testing.T, cluster *lab.Cluster, program func(args ...string) *exec.Cmd) {
	t.Helper()
	cmd := program()
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var logs bytes.Buffer
	cmd.Stderr = &logs
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(pipe)
	says := func(want string) {
		t.Helper()
		line, err := lines.ReadString('\n')
		require.NoError(t, err, "%s", &logs)
		require.Equal(t, want+"\n", line)
	}
	says("synced  0 <nil>")
	for i, m := range cluster.Members() {
		require.NoError(t, m.Stop())
		out, err := program("--name", "web", "--replicas", strconv.Itoa(i+1)).CombinedOutput()
		require.NoError(t, err, "%s", out)
		says(fmt.Sprintf("put web %d <nil>", i+1))
		require.NoError(t, m.Continue())
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), "%s", &logs)
}

// leaders freezes, interrupts and kills the process that leads. The one that was frozen writes nothing any more.
func leaders(ctx context.Context, t *testing.T, cluster *lab.Cluster, candidate func(name string) *exec.Cmd) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints()})
	require.NoError(t, err)
	defer client.Close()
	said := make(map[string]chan string) // by each, whose lines come in any order with those of others
	start := func(name string) *exec.Cmd {
		lines := make(chan string)
		said[name] = lines
		cmd := candidate(name)
		pipe, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		go func() {
			for out := bufio.NewScanner(pipe); out.Scan(); {
				select {
				case lines <- out.Text():
				case <-ctx.Done():
				}
			}
		}()
		return cmd
	}
	hear := func(name, does string) {
		t.Helper()
		want := name + " " + does
		select {
		case line := <-said[name]:
			require.Equal(t, want, line)
		case <-ctx.Done():
			require.FailNow(t, "it was not said", want)
		}
	}
	plans := func(want string) {
		t.Helper()
		for got := ""; got != want; {
			resp, err := client.Get(ctx, "examples/plan")
			require.NoError(t, err)
			got = string(resp.Kvs[0].Value)
		}
	}
	ann := start("ann")
	hear("ann", "leads")
	bob := start("bob")
	require.NoError(t, ann.Process.Signal(syscall.SIGSTOP))
	hear("bob", "leads")
	plans("bob")
	require.NoError(t, ann.Process.Signal(syscall.SIGCONT))
	hear("ann", "resigns")
	resp, err := client.Get(ctx, "examples/plan")
	require.NoError(t, err)
	assert.Equal(t, "bob", string(resp.Kvs[0].Value))

	require.NoError(t, bob.Process.Signal(syscall.SIGTERM))
	hear("bob", "resigns")
	require.NoError(t, bob.Wait())
	hear("ann", "leads")
	carol := start("carol")
	require.NoError(t, ann.Process.Kill())
	require.Error(t, ann.Wait())
	hear("carol", "leads")
	require.NoError(t, carol.Process.Signal(os.Interrupt))
	hear("carol", "resigns")
	require.NoError(t, carol.Wait())
}

// controllers has two processes of which one reconciles, with a member of the cluster frozen meanwhile. The one that leads is frozen
// too: the other one goes on, and the first writes nothing when it wakes.
func controllers(ctx context.Context, t *testing.T, cluster *lab.Cluster, candidate func(name string) *exec.Cmd) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints()})
	require.NoError(t, err)
	defer client.Close()
	write := func(name string, ops ...clientv3.Op) {
		t.Helper()
		if len(ops) == 0 {
			ops = []clientv3.Op{clientv3.OpPut("examples/desired/"+name, name)}
		}
		_, err := client.Txn(ctx).Then(ops...).Commit()
		for ctx.Err() == nil && retry.OutcomeOf(err) == retry.OutcomeUnknown { // it may be repeated: a member freezes meanwhile
			_, err = client.Txn(ctx).Then(ops...).Commit()
		}
		require.NoError(t, err)
	}
	// await returns which of the values it is.
	await := func(name string, wants ...string) (got string) {
		t.Helper()
		for got = name; !slices.Contains(wants, got); {
			resp, err := client.Get(ctx, "examples/actual/"+name)
			require.NoError(t, err)
			if got = ""; len(resp.Kvs) > 0 {
				got = string(resp.Kvs[0].Value)
			}
		}
		return got
	}
	write("zoe")
	dan, eve := candidate("dan"), candidate("eve")
	require.NoError(t, dan.Start())
	await("zoe", "dan made zoe")
	require.NoError(t, eve.Start())

	leader, err := cluster.Leader(ctx)
	require.NoError(t, err)
	frozen := cluster.Members()[(leader.Index()+1)%3]
	require.NoError(t, frozen.Stop())
	write("yan")
	leads, next, name := dan, eve, "eve"
	if await("yan", "dan made yan", "eve made yan") == "eve made yan" { // a slow machine may lose the lead with the member
		leads, next, name = eve, dan, "dan"
	}
	write("", clientv3.OpDelete("examples/desired/zoe"))
	await("zoe", "")
	require.NoError(t, leads.Process.Signal(syscall.SIGSTOP))
	await("yan", name+" made yan")
	require.NoError(t, leads.Process.Signal(syscall.SIGCONT))
	write("xia")
	await("xia", name+" made xia")
	require.NoError(t, frozen.Continue())
	require.NoError(t, leads.Process.Signal(os.Interrupt))
	_ = leads.Wait() // a candidate that is interrupted has not led
	await("yan", name+" made yan")
	require.NoError(t, next.Process.Signal(syscall.SIGTERM))
	require.NoError(t, next.Wait())
}

// watches writes while the example follows.
func watches(ctx context.Context, t *testing.T, cluster *lab.Cluster, cmd *exec.Cmd) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints()})
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Put(ctx, "examples/watched/before", "there")
	require.NoError(t, err)

	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(pipe)
	first, err := lines.ReadString('\n')
	require.NoError(t, err, "%s", &errors)
	assert.Equal(t, "1 keys\n", first)
	for _, key := range []string{"before", "new", "end"} {
		_, err = client.Put(ctx, "examples/watched/"+key, "v")
		require.NoError(t, err)
	}
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), "%s", &errors)
	assert.Equal(t, "PUT examples/watched/before = v\nPUT examples/watched/new = v\nPUT examples/watched/end = v\n", string(rest))
}
