package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab"
)

// TestSessions runs the commands that run until they are interrupted.
func TestSessions(t *testing.T) {
	c := start(t, lab.Config{Members: 1})
	for name, test := range map[string]func(*testing.T, etcdctl){
		"watch":                 testWatch,
		"watch with a command":  testWatchCommand,
		"watch interactively":   testWatchInteractive,
		"lock":                  testLock,
		"lock with a command":   testLockCommand,
		"lock of a dead holder": testLockOfDeadHolder,
		"elect":                 testElect,
		"lease keep-alive":      testKeepAlive,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, on(c))
		})
	}
}

// nextRevision returns the current revision plus one: later writes have at least that.
func nextRevision(t *testing.T, ctl etcdctl) string {
	t.Helper()
	vars := map[string]string{}
	const want = "\"ClusterID\" : <_>\n\"MemberID\" : <_>\n\"Revision\" : <rev>\n\"RaftTerm\" : <_>\n\"More\" : false\n\"Count\" : 0\n"
	require.True(t, match(want, ctl.ok(t, "get", "none", "--write-out=fields"), vars))
	var rev int
	_, err := fmt.Sscan(vars["rev"], &rev)
	require.NoError(t, err)
	return fmt.Sprint(rev + 1)
}

// testWatch names a start revision, so that no event is lost if the puts come before the watch is created.
func testWatch(t *testing.T, ctl etcdctl) {
	watch := ctl.begin(t, "watch", "watch/", "--prefix", "--prev-kv", "--rev="+nextRevision(t, ctl))
	ctl.ok(t, "put", "watch/a", "1")
	ctl.ok(t, "put", "watch/a", "2")
	ctl.ok(t, "del", "watch/", "--prefix")
	watch.expect("PUT", "watch/a", "1", "PUT", "watch/a", "1", "watch/a", "2", "DELETE", "watch/a", "2", "watch/a", "")
	watch.silent()
}

func testWatchCommand(t *testing.T, ctl etcdctl) {
	watch := ctl.begin(t, "watch", "exec", "--rev="+nextRevision(t, ctl), "--", "sh", "-c", "echo $ETCD_WATCH_EVENT_TYPE $ETCD_WATCH_KEY $ETCD_WATCH_VALUE")
	ctl.ok(t, "put", "exec", "1")
	watch.expect("PUT", "exec", "1", `"PUT" "exec" "1"`)
}

func testWatchInteractive(t *testing.T, ctl etcdctl) {
	rev := nextRevision(t, ctl)
	watch := ctl.begin(t, "watch", "--interactive")
	watch.say("watch first --rev " + rev)
	ctl.ok(t, "put", "first", "1")
	watch.expect("PUT", "first", "1")
	watch.say("watch second --rev " + rev)
	ctl.ok(t, "put", "second", "2")
	watch.expect("PUT", "second", "2")
	watch.say("progress")
	select {
	case line := <-watch.lines:
		require.True(t, strings.HasPrefix(line, "progress notify: "), line)
	case <-time.After(soon):
		require.FailNow(t, "no progress notification")
	}
}

// awaitKeys returns when a prefix has n keys: each session that holds a lock, or waits for it, has one.
func awaitKeys(t *testing.T, ctl etcdctl, prefix string, n int) {
	t.Helper()
	eventually(t, func() bool { return strings.Count(ctl.ok(t, "get", prefix, "--prefix", "--keys-only"), prefix) == n })
}

// expectHolder waits until a session prints the key of the holder, and then more lines.
func expectHolder(t *testing.T, s *session, prefix string, more ...string) {
	t.Helper()
	select {
	case line, ok := <-s.lines:
		require.True(t, ok && strings.HasPrefix(line, prefix), "%s printed %q", s.name, line)
	case <-time.After(soon):
		require.FailNow(t, "not held", s.name)
	}
	s.expect(more...)
}

func testLock(t *testing.T, ctl etcdctl) {
	first := ctl.begin(t, "lock", "lock")
	expectHolder(t, first, "lock/", "")
	second := ctl.begin(t, "lock", "lock")
	awaitKeys(t, ctl, "lock/", 2)
	second.silent()
	first.stop(syscall.SIGINT)
	expectHolder(t, second, "lock/", "")
	second.stop(syscall.SIGTERM)
	require.Empty(t, ctl.ok(t, "get", "lock/", "--prefix"))
}

func testLockCommand(t *testing.T, ctl etcdctl) {
	got := ctl.run(t, "", "lock", "guard", "--", "sh", "-c", "echo key $ETCD_LOCK_KEY; exit 7")
	require.Equal(t, 7, got.status, got.stderr)
	require.Regexp(t, `^key guard/[0-9a-f]+\n$`, got.stdout)
	require.Empty(t, ctl.ok(t, "get", "guard/", "--prefix"), "the lock is still held")
}

// testLockOfDeadHolder lets the lease of a killed holder expire.
func testLockOfDeadHolder(t *testing.T, ctl etcdctl) {
	dead := ctl.begin(t, "lock", "orphan", "--ttl=5")
	expectHolder(t, dead, "orphan/")
	next := ctl.begin(t, "lock", "orphan")
	awaitKeys(t, ctl, "orphan/", 2)
	next.silent()
	dead.signal(syscall.SIGKILL)
	expectHolder(t, next, "orphan/")
	awaitKeys(t, ctl, "orphan/", 1)
}

func testElect(t *testing.T, ctl etcdctl) {
	first := ctl.begin(t, "elect", "election", "one")
	expectHolder(t, first, "election/", "one")
	observer := ctl.begin(t, "elect", "election", "--listen")
	expectHolder(t, observer, "election/", "one")
	second := ctl.begin(t, "elect", "election", "two")
	awaitKeys(t, ctl, "election/", 2)
	second.silent()
	first.stop(syscall.SIGTERM)
	expectHolder(t, second, "election/", "two")
	expectHolder(t, observer, "election/", "two")
	observer.stop(syscall.SIGINT)
	second.stop(syscall.SIGINT)
	require.Empty(t, ctl.ok(t, "get", "election/", "--prefix"))
}

func testKeepAlive(t *testing.T, ctl etcdctl) {
	vars := map[string]string{}
	require.True(t, match("lease <id> granted with TTL(9s)\n", ctl.ok(t, "lease", "grant", "9"), vars))
	keeper := ctl.begin(t, "lease", "keep-alive", vars["id"])
	kept := fmt.Sprintf("lease %s keepalived with TTL(9)", vars["id"])
	keeper.expect(kept, kept, kept)
	ctl.ok(t, "lease", "revoke", vars["id"])
	keeper.expect(fmt.Sprintf("lease %s expired or revoked.", vars["id"]))
	keeper.end(0)
}

// session is a command that runs until it is interrupted.
type session struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	stdin  io.Writer
	lines  chan string // the lines of its standard output, closed at its end
	stderr bytes.Buffer
}

// begin starts a command. It is killed at the end of the test at the latest.
func (e etcdctl) begin(t *testing.T, args ...string) *session {
	t.Helper()
	s := &session{t: t, name: "etcdctl " + strings.Join(args, " "), cmd: e.command(t.Context(), args...), lines: make(chan string, 1000)}
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
	select {
	case line, ok := <-s.lines:
		require.False(s.t, ok, "%s printed %q, want its end", s.name, line)
	case <-time.After(soon):
		require.FailNow(s.t, "no end", "%s has not ended for %v", s.name, soon)
	}
	_ = s.cmd.Wait() // its result is the exit status
	require.Equal(s.t, status, s.cmd.ProcessState.ExitCode(), "%s\nstderr: %s", s.name, &s.stderr)
}

// stop ends a command by a signal. Its exit status must be 0.
func (s *session) stop(sig syscall.Signal) {
	s.t.Helper()
	s.signal(sig)
	s.end(0)
}
