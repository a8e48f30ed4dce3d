package main

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"
)

// TestMemberPromote makes a voter of a learner that has caught up. The lab's
// clusters have a fixed membership: these two servers run in the test itself.
func TestMemberPromote(t *testing.T) {
	voter := config(t, "voter")
	voter.InitialCluster = voter.InitialClusterFromName(voter.Name)
	voter.serve(t)
	ctl := etcdctl{[]string{"--endpoints=" + voter.ListenClientUrls[0].String()}}
	ctl.ok(t, "put", "a", "1")

	learner := config(t, "learner")
	peer := learner.ListenPeerUrls[0].String()
	vars := map[string]string{}
	added := fmt.Sprintf("Member <id> added as learner to cluster <_>\n\nETCD_NAME=\"learner\"\nETCD_INITIAL_CLUSTER=\"<_>,<_>\"\n"+
		"ETCD_INITIAL_ADVERTISE_PEER_URLS=%q\nETCD_INITIAL_CLUSTER_STATE=\"existing\"\n", peer)
	printed := ctl.ok(t, "member", "add", "learner", "--learner", "--peer-urls="+peer)
	require.True(t, match(added, printed, vars), printed)

	learner.InitialCluster = voter.InitialCluster + ",learner=" + peer
	learner.ClusterState = embed.ClusterStateFlagExisting
	learner.serve(t)
	eventually(t, func() bool { // it has caught up
		got := ctl.run(t, "", "member", "promote", vars["id"])
		return got.status == 0 && match("Member <id> promoted in cluster <_>\n", got.stdout, vars)
	})
	want := fmt.Sprintf("%s, started, learner, %s, %s, false\n", vars["id"], peer, learner.ListenClientUrls[0].String())
	require.Contains(t, ctl.ok(t, "member", "list"), want)
}

// server is an etcd server that is to start. Until then it holds its ports, so that
// no connection gets one of them.
type server struct {
	*embed.Config
	held []net.Listener
}

// config returns a server on free ports of this machine.
func config(t *testing.T, name string) *server {
	t.Helper()
	s := &server{Config: embed.NewConfig()}
	s.Name = name
	s.Dir = filepath.Join(t.TempDir(), name)
	s.LogLevel = "fatal"
	s.UnsafeNoFsync = true
	s.TickMs, s.ElectionMs = 50, 500
	s.ListenPeerUrls, s.ListenClientUrls = s.hold(t), s.hold(t)
	s.AdvertisePeerUrls, s.AdvertiseClientUrls = s.ListenPeerUrls, s.ListenClientUrls
	return s
}

// hold returns the URL of a port that the server holds from now on.
func (s *server) hold(t *testing.T) []url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() }) // it is closed already, if the server was started
	s.held = append(s.held, l)
	return []url.URL{{Scheme: "http", Host: l.Addr().String()}}
}

// serve starts the server, and waits until it serves its clients.
func (s *server) serve(t *testing.T) {
	t.Helper()
	for _, l := range s.held {
		require.NoError(t, l.Close())
	}
	running, err := embed.StartEtcd(s.Config)
	require.NoError(t, err)
	t.Cleanup(running.Close)
	select {
	case <-running.Server.ReadyNotify():
	case <-time.After(soon):
		require.FailNow(t, "not ready", s.Name)
	}
}
