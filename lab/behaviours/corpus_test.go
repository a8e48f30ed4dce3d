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
var program *servers.Program

func TestMain(m *testing.M) {
	lab.Main()
	_ = flag.Set("test.parallel", "4") // they wait more than they compute
	var err error
	program, err = servers.BuildProgram(context.Background(), "./behaviours/program", []servers.Client{servers.Quorate}, raceFlag()...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		program.Remove()
		os.Exit(status)
	}))
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
	compare(t, "", site.None, func(_ context.Context, play func(site.Site) error) error { return play(site.Site{}) })
}

// TestClients compares the clients on the newest release and the oldest: first all that does not depend on there being several
// members.
func TestClients(t *testing.T) {
	t.Parallel()
	for _, s := range []servers.Server{servers.BuiltIn, oldest} {
		for _, setup := range []site.Setup{site.Single, site.Secured, site.Several} {
			t.Run(s.Name+", "+string(setup), func(t *testing.T) {
				t.Parallel()
				path := pathOf(t, s)
				compare(t, s.Name, setup, func(ctx context.Context, play func(site.Site) error) error {
					return onServer(ctx, s, path, setup, play)
				})
			})
		}
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

// TestRows runs rows with Quorate of which neither the comparison nor the fake has the like: tokens that expire or that a
// member forgets, and writes through lanes of the newest etcd, of the oldest and of a grpc-proxy before it, which kine
// must refuse. The matrix fails only where the official client is better.
func TestRows(t *testing.T) {
	t.Parallel()
	const tokens, idempotent = "authentication: tokens expire ", "idempotent writes: "
	const works = idempotent + "executed once, although the answer is lost"
	newest := servers.BuiltIn
	for _, row := range []struct {
		server  servers.Server
		name    string
		refused bool
	}{
		{server: newest, name: tokens + "under calls"},
		{server: newest, name: tokens + "under a watch"},
		{server: newest, name: tokens + "before a watch"},
		{server: newest, name: tokens + "under a keepalive"},
		{server: newest, name: "authentication: the server restarts under calls"},
		{server: oldest, name: "authentication: the server restarts under a watch"},
		{server: newest, name: works},
		{server: oldest, name: works},
		{server: servers.OldProxy, name: works},
		{server: kine, name: works, refused: true},
		{server: kine, name: idempotent + "refused when the writer is made, where they do not work"},
	} {
		t.Run(row.server.Name+", "+row.name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(behaviours.All, func(b behaviours.Behaviour) bool { return b.String() == row.name })
			running, err := row.server.Start(t.Context(), pathOf(t, row.server), behaviours.All[i].Setup)
			require.NoError(t, err)
			defer func() { require.NoError(t, running.Close()) }()
			o, err := play(t.Context(), servers.Quorate, running.Site(), row.name)
			require.NoError(t, err)
			require.Equal(t, row.refused, o.Error != "", o.Error)
		})
	}
}

// onServer calls play with a new server.
func onServer(ctx context.Context, s servers.Server, path string, setup site.Setup, play func(site.Site) error) (err error) {
	running, err := s.Start(ctx, path, setup)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, running.Close()) }()
	return play(running.Site())
}

// compare runs the behaviours of a setup with both clients, at the same time, each on a new server that start starts, and
// compares what they recorded.
func compare(t *testing.T, server string, setup site.Setup, start func(context.Context, func(site.Site) error) error) {
	t.Helper()
	outcomes := make([]site.Outcome, len(servers.Clients))
	both(t, func(i int) error {
		return start(t.Context(), func(s site.Site) (err error) {
			outcomes[i], err = play(t.Context(), servers.Clients[i], s, named(setup)...)
			return errors.Join(err, wrong(outcomes[i]))
		})
	})
	requireAlike(t, server, behaviours.Deliberate, outcomes[0].Entries, outcomes[1].Entries)
}

// requireAlike fails the test for every step whose outcomes differ without being listed, and for every listed difference that
// has gone. A call that times out by surprise would prove nothing, even if it did so twice.
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
			assert.NotContains(t, e.Error, "context.DeadlineExceeded", "%s: both", e.Step)
		}
	}
	t.Logf("%d steps, %d differences on purpose", len(theirs), len(listed))
}

// both runs f for 0 and 1 at the same time, and fails the test if one does.
func both(t *testing.T, f func(i int) error) {
	t.Helper()
	var running errgroup.Group
	for i := range 2 {
		running.Go(func() error { return f(i) })
	}
	require.NoError(t, running.Wait())
}

func wrong(o site.Outcome) error {
	if o.Error == "" {
		return nil
	}
	return errors.New(o.Error)
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

// overTLS are the recorded behaviours of one member that have to do with the connection: dialing, streams, large messages, how
// calls end. What the others record is the same over every connection.
var overTLS = []string{
	"put", "stream", "limits", "snapshot", "keepalive end", "watch range", "watch large", "watch end", "connection", "constructors",
	"interceptors", "files", "old cluster", "close", "auth", "frozen",
}

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
