package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab"
)

// threeMembers starts a cluster of three whose membership can be changed at once:
// etcd takes a member for unhealthy in its first five seconds. They elect no other
// leader while the machine is busy.
func threeMembers(t *testing.T) *lab.Cluster {
	t.Helper()
	return start(t, lab.Config{Election: 2 * time.Second, Args: []string{"--strict-reconfig-check=false"}})
}

// hex returns an id as etcdctl prints it.
func hex(id uint64) string { return fmt.Sprintf("%x", id) }

// cells returns the cells of a table, by row, the names of the columns first.
func cells(table string) [][]string {
	var rows [][]string
	for line := range strings.Lines(table) {
		columns := strings.Split(line, "│")
		if len(columns) < 3 {
			continue // a rule between rows
		}
		var row []string
		for _, cell := range columns[1 : len(columns)-1] {
			row = append(row, strings.TrimSpace(cell))
		}
		rows = append(rows, row)
	}
	return rows
}

func TestMembers(t *testing.T) {
	c := threeMembers(t)
	first := c.Members()[0]
	vars := map[string]string{"first": hex(first.ID())}
	script{steps: []step{
		{
			args: "member add m4 --learner --peer-urls=http://127.0.0.1:1",
			want: `Member <learner> added as learner to cluster <cluster>

ETCD_NAME="m4"
ETCD_INITIAL_CLUSTER="<_>,<_>,<_>,<_>"
ETCD_INITIAL_ADVERTISE_PEER_URLS="http://127.0.0.1:1"
ETCD_INITIAL_CLUSTER_STATE="existing"
`,
		},
		{args: "member promote $learner", fails: "etcdserver: can only promote a learner member which is in sync with leader"},
		{args: "member update $learner --peer-urls=http://127.0.0.1:2", want: "Member <learner> updated in cluster <cluster>\n"},
		{args: "member promote $first", fails: "etcdserver: can only promote a learner member"},
		{args: "member remove $learner", want: "Member <learner> removed from cluster <cluster>\n"},
		{args: "member remove $learner", fails: "etcdserver: member not found"},
	}}.play(t, on(c), vars)

	want := [][]string{{"ID", "STATUS", "NAME", "PEER ADDRS", "CLIENT ADDRS", "IS LEARNER"}}
	for i, m := range c.Members() {
		want = append(want, []string{hex(m.ID()), "started", m.Name(), fmt.Sprintf("https://192.0.2.%d:2380", i+1), m.Endpoint(), "false"})
	}
	require.ElementsMatch(t, want, cells(on(c).ok(t, "member", "list", "--write-out=table")))
}

// epStatus is what "endpoint status" prints of an endpoint as JSON.
type epStatus struct {
	Endpoint string
	Status   struct {
		Header struct {
			MemberID uint64 `json:"member_id"`
		}
	}
}

// TestEndpoints asks for all members by way of one.
func TestEndpoints(t *testing.T) {
	c := threeMembers(t)
	ctl := etcdctl{[]string{"--endpoints=" + c.Endpoints()[0]}}

	var statuses []epStatus
	require.NoError(t, json.Unmarshal([]byte(ctl.ok(t, "endpoint", "status", "--cluster", "--write-out=json")), &statuses))
	members := map[string]uint64{}
	for _, m := range c.Members() {
		members[m.Endpoint()] = m.ID()
	}
	got := map[string]uint64{}
	for _, s := range statuses {
		got[s.Endpoint] = s.Status.Header.MemberID
	}
	require.Equal(t, members, got)

	health := ctl.ok(t, "endpoint", "health", "--cluster")
	for endpoint := range members {
		require.Contains(t, health, endpoint+" is healthy")
	}
	rows := cells(ctl.ok(t, "endpoint", "hashkv", "--cluster", "--write-out=table"))
	require.Len(t, rows, 4)
	for _, row := range rows[1:] {
		assert.Contains(t, members, row[0])
		assert.Equal(t, rows[1][1:], row[1:], "the members have different content")
	}
}

func TestMoveLeader(t *testing.T) {
	c := threeMembers(t)
	old, err := c.Leader(t.Context())
	require.NoError(t, err)
	target := c.Members()[(old.Index()+1)%3]
	script{steps: []step{
		{args: "move-leader $target", want: "Leadership transferred from <old> to <target>\n"},
		{args: "move-leader 1", fails: "etcdserver: bad leader transferee"},
	}}.play(t, on(c), map[string]string{"old": hex(old.ID()), "target": hex(target.ID())})
	now, err := c.Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, target.Name(), now.Name())
}

// TestMemberPromote makes a voter of a learner that has caught up.
func TestMemberPromote(t *testing.T) {
	c := threeMembers(t)
	learner := c.Members()[2]
	require.NoError(t, learner.BecomeLearner(t.Context()))
	ctl, vars := etcdctl{[]string{"--endpoints=" + c.Endpoints()[0]}}, map[string]string{"id": hex(learner.ID())}
	eventually(t, func() bool { // it has caught up
		got := ctl.run(t, "", "member", "promote", vars["id"])
		return got.status == 0 && match("Member <id> promoted in cluster <_>\n", got.stdout, vars)
	})
	want := fmt.Sprintf("%s, started, %s, https://192.0.2.3:2380, %s, false\n", vars["id"], learner.Name(), learner.Endpoint())
	require.Contains(t, ctl.ok(t, "member", "list"), want)
}

// TestMemberDown runs commands while the member of the first endpoint is gone.
func TestMemberDown(t *testing.T) {
	c := threeMembers(t)
	require.NoError(t, c.Members()[0].Kill())
	require.NoError(t, c.WaitReady(t.Context()))
	ctl := on(c) // it may log that an endpoint is out
	require.Equal(t, "OK\n", ctl.ok(t, "put", "a", "1"))
	require.Equal(t, "a\n1\n", ctl.ok(t, "get", "a"))
	got := ctl.run(t, "", "endpoint", "health")
	require.NotZero(t, got.status)
	require.Contains(t, got.stderr, c.Endpoints()[0]+" is unhealthy")
	require.Contains(t, got.stdout, c.Endpoints()[1]+" is healthy")
	require.Contains(t, got.stdout, c.Endpoints()[2]+" is healthy")
}

func TestNoServer(t *testing.T) {
	got := etcdctl{[]string{"--endpoints=http://127.0.0.1:1", "--command-timeout=300ms"}}.run(t, "", "get", "a")
	require.NotZero(t, got.status)
	require.Contains(t, got.stderr, "Error: context deadline exceeded")
}
