package contract_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/contract"
	"github.com/quorate/quorate/lab/contract/scenarios"
	"github.com/quorate/quorate/lab/internal/etcd34"
	"github.com/quorate/quorate/lab/servers"
	"github.com/quorate/quorate/lab/servers/site"
)

// program is the path of the program, compiled with Quorate, and with the race detector if this test is.
var program string

func TestMain(m *testing.M) {
	lab.Main()
	_ = flag.Set("test.parallel", "4") // they wait more than they compute
	dir, err := os.MkdirTemp("", "quorate-contract-")
	if err == nil {
		program, err = servers.Quorate.Build(context.Background(), dir, "./contract/program", raceFlag()...)
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

func raceFlag() []string {
	info, _ := debug.ReadBuildInfo()
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return []string{"-race"}
	}
	return nil
}

const patience = contract.Patience

// server is a version of etcd to test against.
type server struct {
	name         string
	binary       func(t testing.TB) string
	progressFlag string
}

var released = []server{
	{"etcd 3.7", func(testing.TB) string { return "" }, "--watch-progress-notify-interval"}, // the one built in
	{"etcd 3.4", etcd34.Path, "--experimental-watch-progress-notify-interval"},
}

// TestWithoutServer compares what the clients do by themselves.
func TestWithoutServer(t *testing.T) {
	t.Parallel()
	compare(t, "", scenarios.Pure, nil)
}

// TestOneMember runs everything that does not depend on there being several members.
func TestOneMember(t *testing.T) {
	t.Parallel()
	for _, s := range released {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TLS %t", s.name, secure), func(t *testing.T) {
				t.Parallel()
				cfg := &lab.Config{
					Members: 1,
					TLS:     secure,
					Binary:  s.binary(t),
					Args: []string{
						"--bcrypt-cost=4", // the lowest: logins are many here
						s.progressFlag + "=500ms",
					},
				}
				compare(t, s.name, scenarios.Single, cfg)
			})
		}
	}
}

// TestAlone runs what changes something of the whole process. It is not parallel to any other test.
func TestAlone(t *testing.T) {
	compare(t, "etcd 3.7", scenarios.Alone, &lab.Config{Members: 1})
}

// TestThreeMembers runs what depends on there being several members.
func TestThreeMembers(t *testing.T) {
	t.Parallel()
	for _, s := range released {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			cfg := &lab.Config{
				Binary: s.binary(t),
				Args:   []string{"--strict-reconfig-check=false"}, // it takes a member for unhealthy in its first five seconds
			}
			compare(t, s.name, scenarios.Several, cfg)
		})
	}
}

// compare runs the program with both clients, at the same time, each on a new cluster, and compares what they recorded.
func compare(t *testing.T, server string, kind scenarios.Kind, cfg *lab.Config) {
	t.Helper()
	clients := []func(context.Context, contract.Site, scenarios.Kind) (contract.Outcome, error){playOfficial, playQuorate}
	outcomes, errs := make([]contract.Outcome, len(clients)), make([]error, len(clients))
	var running sync.WaitGroup
	for i, play := range clients {
		running.Go(func() {
			errs[i] = onSite(t.Context(), cfg, func(ctx context.Context, site contract.Site) (err error) {
				outcomes[i], err = play(ctx, site, kind)
				return err
			})
		})
	}
	running.Wait()
	for i, client := range servers.Clients {
		require.NoError(t, errs[i], client)
		require.Empty(t, outcomes[i].Error, client)
	}
	requireAlike(t, server, outcomes[0].Entries, outcomes[1].Entries)
}

func playOfficial(ctx context.Context, site contract.Site, kind scenarios.Kind) (contract.Outcome, error) {
	return contract.Play(ctx, site, scenarios.All[kind]), nil
}

// playQuorate runs the program that TestMain compiled with Quorate.
func playQuorate(ctx context.Context, site contract.Site, kind scenarios.Kind) (o contract.Outcome, err error) {
	told, err := json.Marshal(site)
	if err != nil {
		return o, err
	}
	cmd := exec.CommandContext(ctx, program, string(kind))
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(told), &stderr
	out, err := cmd.Output()
	if err != nil {
		return o, fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return o, json.Unmarshal(out, &o)
}

// onSite calls play with a new cluster, or with none.
func onSite(ctx context.Context, cfg *lab.Config, play func(context.Context, contract.Site) error) (err error) {
	if cfg == nil {
		return play(ctx, contract.Site{})
	}
	cluster, err := lab.Start(ctx, *cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if err := settle(ctx, cluster); err != nil {
		return err
	}
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := act(r.Context(), cluster, site.Act(strings.TrimPrefix(r.URL.Path, "/"))); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer control.Close()
	files := cluster.TLSFiles()
	return play(ctx, contract.Site{
		Site: site.Site{
			Files:   site.Files{CA: files.CA, ClientCert: files.ClientCert, ClientKey: files.ClientKey},
			Control: control.URL,
		},
		Endpoints: cluster.Endpoints(),
	})
}

// act does to a cluster what a scenario asks for.
func act(ctx context.Context, cluster *lab.Cluster, act site.Act) error {
	members := cluster.Members()
	switch act {
	case contract.Freeze:
		return onEach(members, freeze)
	case contract.Thaw:
		return onEach(members, (*lab.Member).Continue)
	case contract.Kill:
		return errors.Join(cluster.MoveLeader(ctx, members[1]), members[0].Kill())
	case contract.Restart:
		return members[0].Restart(ctx)
	case contract.Isolate:
		return onEach(members[1:], (*lab.Member).Kill)
	default:
		return fmt.Errorf("unknown act %q", act)
	}
}

func onEach(members []*lab.Member, act func(*lab.Member) error) error {
	var errs []error
	for _, m := range members {
		errs = append(errs, act(m))
	}
	return errors.Join(errs...)
}

// freeze stops a member and returns when it does not answer any more: a signal takes effect some time after it is sent.
func freeze(m *lab.Member) error {
	if err := m.Stop(); err != nil {
		return err
	}
	for {
		if _, err := m.Status(context.Background()); err != nil {
			return nil //nolint:nilerr // that it fails is what is waited for
		}
	}
}

// settle waits for what an etcd server changes by itself in its first seconds: it raises the version of its storage,
// which Status and snapshots tell. etcd 3.4 has none.
func settle(ctx context.Context, cluster *lab.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, m := range cluster.Members() {
		for {
			status, err := m.Status(ctx)
			if err != nil {
				return err
			}
			if strings.HasPrefix(status.GetVersion(), "3.4.") || sameMinor(status.GetVersion(), status.GetStorageVersion()) {
				break
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("etcd %s still has storage version %q", status.GetVersion(), status.GetStorageVersion())
			}
		}
	}
	return nil
}

func sameMinor(a, b string) bool {
	return a[:strings.LastIndexByte(a, '.')+1] == b[:strings.LastIndexByte(b, '.')+1]
}
