package behaviours_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/behaviours"
	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/internal/etcd34"
	"github.com/quorate/quorate/lab/servers"
	"github.com/quorate/quorate/lab/servers/site"
)

// program is compiled with Quorate, and with the race detector if this test is.
var program servers.Program

func TestMain(m *testing.M) {
	lab.Main()
	_ = flag.Set("test.parallel", "4") // they wait more than they compute
	var err error
	program, err = servers.BuildProgram(context.Background(), "./behaviours/program", []servers.Client{servers.Quorate}, raceFlag()...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func raceFlag() []string {
	info, _ := debug.ReadBuildInfo()
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return []string{"-race"}
	}
	return nil
}

const testTimeout = 2 * time.Minute

// TestWithoutServer compares what the clients do by themselves.
func TestWithoutServer(t *testing.T) {
	t.Parallel()
	all := record(t, named(site.None), at(t, site.Site{}, servers.Official), at(t, site.Site{}, servers.Quorate))
	requireAlike(t, "", behaviours.Deliberate, all[0], all[1])
}

// TestClients compares the clients on the newest release and the oldest.
func TestClients(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		server servers.Server
		setup  site.Setup
	}{
		{servers.BuiltIn, site.Single}, {servers.BuiltIn, site.Secured}, {oldest, site.Single},
	} {
		t.Run(r.server.Name+", "+string(r.setup), func(t *testing.T) {
			t.Parallel()
			all := record(t, named(r.setup), onServer(t, r.server, r.setup, servers.Official), onServer(t, r.server, r.setup, servers.Quorate))
			requireAlike(t, r.server.Name, behaviours.Deliberate, all[0], all[1])
		})
	}
}

var oldest, kine = servers.All[0], servers.All[len(servers.All)-1]

// pathOf returns the path of a server's executable.
func pathOf(t *testing.T, s servers.Server) string {
	t.Helper()
	switch s.Name {
	case oldest.Name, servers.OldProxy.Name:
		return etcd34.Path(t)
	case kine.Name:
		path := kine.Built()
		if path == "" {
			t.Skip("kine is not built, `make servers-short` does so")
		}
		return path
	default:
		return ""
	}
}

// TestRows runs with Quorate the rows that neither TestClients nor TestRowsOnAFake covers: tokens that expire or that a member
// forgets, and idempotent writes on the newest etcd, on the oldest, on a grpc-proxy before the oldest, and on kine, which must
// refuse them. The matrix fails only where the official client is better.
func TestRows(t *testing.T) {
	t.Parallel()
	const tokens, once = "authentication: tokens expire ", "idempotent writes: executed once, although the answer is lost"
	newest := servers.BuiltIn
	for _, row := range []struct {
		server  servers.Server
		name    string
		refused string
	}{
		{server: newest, name: tokens + "under calls"},
		{server: newest, name: tokens + "under a watch"},
		{server: newest, name: tokens + "before a watch"},
		{server: newest, name: tokens + "under a keepalive"},
		{server: newest, name: "authentication: the server restarts under calls"},
		{server: oldest, name: "authentication: the server restarts under a watch"},
		{server: newest, name: once},
		{server: oldest, name: once},
		{server: servers.OldProxy, name: once},
		{server: kine, name: once, refused: "idempotent: no lane can be used"}, // when the writer is made
	} {
		t.Run(row.server.Name+", "+row.name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(behaviours.All, func(b behaviours.Behaviour) bool { return b.String() == row.name })
			o, err := onServer(t, row.server, behaviours.All[i].Setup, servers.Quorate)(row.name)
			require.NoError(t, err)
			require.Equal(t, row.refused != "", o.Error != "", o.Error)
			require.Contains(t, o.Error, row.refused)
		})
	}
}

// player runs behaviours on a site.
type player func(names ...string) (site.Outcome, error)

// at returns a player with a client on a site.
func at(t *testing.T, s site.Site, c servers.Client) player {
	return func(names ...string) (site.Outcome, error) { return play(t.Context(), c, s, names...) }
}

// onServer returns a player with a client and a new server.
func onServer(t *testing.T, s servers.Server, setup site.Setup, c servers.Client) player {
	path := pathOf(t, s)
	return func(names ...string) (o site.Outcome, err error) {
		running, err := s.Start(t.Context(), path, setup)
		if err != nil {
			return o, err
		}
		defer func() { err = errors.Join(err, running.Close()) }()
		return play(t.Context(), c, running.Site(), names...)
	}
}

// record has players run behaviours at the same time, and returns what each recorded.
func record(t *testing.T, names []string, players ...player) [][]transcript.Entry {
	t.Helper()
	all := make([][]transcript.Entry, len(players))
	var running errgroup.Group
	for i, play := range players {
		running.Go(func() error {
			o, err := play(names...)
			all[i] = o.Entries
			if o.Error != "" {
				err = errors.Join(err, errors.New(o.Error))
			}
			return err
		})
	}
	require.NoError(t, running.Wait())
	return all
}

// requireAlike fails the test for every step whose outcomes differ without being listed, and for every listed difference that
// has gone. A call that times out unexpectedly proves nothing, even with both clients.
func requireAlike(t *testing.T, server string, list []transcript.Difference, theirs, ours []transcript.Entry) {
	t.Helper()
	require.NotEmpty(t, theirs)
	differing, listed := transcript.Compare(server, list, theirs, ours)
	for _, d := range differing {
		t.Error(d)
	}
	for d, found := range listed {
		assert.True(t, found, "it is listed and has gone: %+v", d)
	}
	for i := range min(len(theirs), len(ours)) {
		if e := theirs[i]; server != "" && e == ours[i] && !strings.Contains(e.Step, "expire") {
			assert.NotContains(t, e.Error, "is: context deadline exceeded", "%s: both", e.Step)
		}
	}
	t.Logf("%d steps, %d differences on purpose", len(theirs), len(listed))
}

// play runs behaviours with a client: the official one in this process.
func play(ctx context.Context, c servers.Client, s site.Site, names ...string) (site.Outcome, error) {
	s.Limit = testTimeout
	if c == servers.Official {
		return behaviours.Play(ctx, s, names...), nil
	}
	return program.Behave(ctx, c, s, names...)
}

var everyTLS = flag.Bool("tls", false, "run all recorded behaviours of one member over TLS, and not only overTLS")

// overTLS are the recorded behaviours of one member that have to do with the connection. What the others record is the same over
// every connection.
var overTLS = []string{"files", "close", "auth"}

// named returns the names of the behaviours that are recorded on a setup.
func named(setup site.Setup) []string {
	var names []string
	for _, b := range behaviours.All {
		secured := setup == site.Secured && b.Setup == site.Single && (*everyTLS || slices.Contains(overTLS, b.Name))
		if secured || b.Setup == setup {
			names = append(names, b.String())
		}
	}
	return names
}
