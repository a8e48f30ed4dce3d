package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/quorate/quorate/lab"
)

// TestSnapshotSave saves a snapshot and looks at the file: it is a database with
// the key in it, followed by its SHA-256.
func TestSnapshotSave(t *testing.T) {
	c := start(t, lab.Config{Members: 1})
	path := filepath.Join(t.TempDir(), "snapshot.db")
	ctl := on(c)
	ctl.ok(t, "put", "saved", "value")
	require.Equal(t, "Snapshot saved at "+path+"\nServer version 3.7.0\n", ctl.run(t, "", "snapshot", "save", path).stdout)

	content, err := os.ReadFile(path)
	require.NoError(t, err)
	data, sum := content[:len(content)-sha256.Size], content[len(content)-sha256.Size:]
	want := sha256.Sum256(data)
	require.Equal(t, want[:], sum)

	require.NoError(t, os.Truncate(path, int64(len(data))))
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var found bool
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("key")).ForEach(func(_, v []byte) error {
			found = found || strings.Contains(string(v), "saved") && strings.Contains(string(v), "value")
			return nil
		})
	}))
	require.True(t, found, "the snapshot lacks a key that had been written before")
}

// TestAlarm fills a member up to its quota, and makes room again.
func TestAlarm(t *testing.T) {
	c := start(t, lab.Config{Members: 1, Args: []string{"--quota-backend-bytes=1048576"}})
	ctl := on(c)
	ctl.ok(t, "put", "small", "1")
	large := strings.Repeat("x", 1<<20)
	got := ctl.run(t, large, "put", "large")
	require.NotZero(t, got.status)
	require.Contains(t, got.stderr, "etcdserver: mvcc: database space exceeded")
	vars := map[string]string{"id": fmt.Sprint(c.Members()[0].ID()), "alarm": "alarm:NOSPACE"}
	script{steps: []step{
		{args: "alarm list", want: "memberID:<id> <alarm>\n"},
		{args: "put small 2", fails: "etcdserver: mvcc: database space exceeded"},
		{args: "get small", want: "small\n1\n"},
		{args: "alarm disarm", want: "memberID:<id> <alarm>\n"},
		{args: "alarm list"},
		{args: "put small 2", want: "OK\n"},
	}}.play(t, ctl, vars)
}

// TestMakeMirror copies what is there and what is written after, to another cluster
// under another prefix.
func TestMakeMirror(t *testing.T) {
	source, target := start(t, lab.Config{Members: 1}), start(t, lab.Config{Members: 1})
	from, to := on(source), on(target)
	from.ok(t, "put", "a/1", "one")
	from.ok(t, "put", "b/1", "not mirrored")
	mirror := from.begin(t, "make-mirror", "--prefix=a/", "--dest-prefix=copy/", target.Endpoints()[0])
	mirrored := func(want string) {
		t.Helper()
		eventually(t, func() bool { return to.ok(t, "get", "''", "--from-key") == want })
	}
	mirrored("copy/1\none\n")
	from.ok(t, "put", "a/2", "two")
	from.ok(t, "del", "a/1")
	mirrored("copy/2\ntwo\n")
	mirror.silent()
	mirror.signal(syscall.SIGKILL)
	mirror.end(-1)
	from.ok(t, "put", "a/3", "three")

	again := from.begin(t, "make-mirror", "--prefix=a/", "--dest-prefix=copy/", target.Endpoints()[0])
	mirrored("copy/2\ntwo\ncopy/3\nthree\n")
	again.signal(syscall.SIGTERM)
}

// TestCompletion covers the completion of commands in a shell.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		require.Contains(t, etcdctl{}.ok(t, "completion", shell), "etcdctl", shell)
	}
	require.Equal(t, "grant-role\tGrants a role to a user\n:4\n", etcdctl{}.run(t, "", "__complete", "user", "grant").stdout)
}

// TestCheck runs etcd's own measurements.
func TestCheck(t *testing.T) {
	for _, check := range []string{"perf", "datascale"} {
		t.Run(check, func(t *testing.T) {
			if check == "perf" && testing.Short() {
				t.Skip("it takes a minute")
			}
			ctl := on(threeMembers(t))
			testCheck(t, ctl.begin(t, "check", check, "--load=s", "--auto-compact", "--auto-defrag"))
			require.Empty(t, ctl.ok(t, "get", "/etcdctl-check-"+check+"/", "--prefix", "--keys-only"))
		})
	}
}

// testCheck waits for the end of a measurement, whose last line is its result.
func testCheck(t *testing.T, check *session) {
	t.Helper()
	var last string
	for timeout := time.After(2 * time.Minute); ; {
		select {
		case line, ok := <-check.lines:
			if !ok {
				check.end(0)
				require.True(t, strings.HasPrefix(last, "PASS"), last)
				return
			}
			t.Log(line)
			last = line
		case <-timeout:
			require.FailNow(t, "it has not ended for two minutes", check.name)
		}
	}
}
