package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/contract"
	"github.com/quorate/quorate/lab/contract/official"
	"github.com/quorate/quorate/lab/contract/quorate"
	"github.com/quorate/quorate/lab/contract/transcript"
	"github.com/quorate/quorate/lab/internal/etcd34"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// patience is far above what any scenario takes; one that hangs is ended by it.
const patience = time.Minute

// server is a version of etcd to test against.
type server struct {
	name         string
	binary       func(t testing.TB) string
	progressFlag string
}

var servers = []server{
	{"etcd 3.7", func(testing.TB) string { return "" }, "--watch-progress-notify-interval"}, // the one built in
	{"etcd 3.4", etcd34.Path, "--experimental-watch-progress-notify-interval"},
}

// TestWithoutServer compares what the clients do by themselves.
func TestWithoutServer(t *testing.T) {
	t.Parallel()
	compare(t, "", official.Pure(), quorate.Pure(), play(contract.Site{}))
}

// TestOneMember runs everything that does not depend on there being several members.
func TestOneMember(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TLS %t", s.name, secure), func(t *testing.T) {
				t.Parallel()
				cfg := lab.Config{
					Members: 1,
					TLS:     secure,
					Binary:  s.binary(t),
					Args: []string{
						"--bcrypt-cost=4", // the lowest: logins are many here
						s.progressFlag + "=500ms",
					},
				}
				compare(t, s.name, official.Single(), quorate.Single(), playOn(cfg))
			})
		}
	}
}

// TestAlone runs what changes something of the whole process. It is not parallel to any other test.
func TestAlone(t *testing.T) {
	compare(t, "etcd 3.7", official.Alone(), quorate.Alone(), playOn(lab.Config{Members: 1}))
}

// TestThreeMembers runs what depends on there being several members.
func TestThreeMembers(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			cfg := lab.Config{
				Binary: s.binary(t),
				Args:   []string{"--strict-reconfig-check=false"}, // it takes a member for unhealthy in its first five seconds
			}
			compare(t, s.name, official.Several(), quorate.Several(), playOn(cfg))
		})
	}
}

// player runs scenarios and returns what they recorded.
type player func(ctx context.Context, scenarios []contract.Scenario) ([]transcript.Entry, error)

// compare runs the program with both clients, at the same time, and compares what they recorded.
func compare(t *testing.T, server string, officialScenarios, quorateScenarios []contract.Scenario, run player) {
	t.Helper()
	type outcome struct {
		entries []transcript.Entry
		err     error
	}
	outcomes := make([]chan outcome, 2)
	for i, scenarios := range [][]contract.Scenario{officialScenarios, quorateScenarios} {
		outcomes[i] = make(chan outcome, 1)
		go func() {
			entries, err := run(t.Context(), scenarios)
			outcomes[i] <- outcome{entries, err}
		}()
	}
	theirs, ours := <-outcomes[0], <-outcomes[1]
	require.NoError(t, theirs.err, "official client")
	require.NoError(t, ours.err, "Quorate")
	requireAlike(t, server, theirs.entries, ours.entries)
}

// playOn returns a player on a new cluster.
func playOn(cfg lab.Config) player {
	return func(ctx context.Context, scenarios []contract.Scenario) (entries []transcript.Entry, err error) {
		cluster, err := lab.Start(ctx, cfg)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, cluster.Close()) }()
		if err := settle(ctx, cluster); err != nil {
			return nil, err
		}
		site := contract.Site{
			Endpoints: cluster.Endpoints(),
			TLS:       cluster.ClientTLS(),
			Files:     cluster.TLSFiles(),
			Freeze:    onEach(cluster.Members(), freeze),
			Thaw:      onEach(cluster.Members(), (*lab.Member).Continue),
			Outage:    func(meanwhile func()) error { return outage(ctx, cluster, meanwhile) },
			Maroon: func() (string, error) {
				members := cluster.Members()
				return members[0].Endpoint(), onEach(members[1:], (*lab.Member).Kill)()
			},
		}
		return play(site)(ctx, scenarios)
	}
}

// outage ends the first member, as a follower, for as long as meanwhile takes.
func outage(ctx context.Context, cluster *lab.Cluster, meanwhile func()) error {
	first := cluster.Members()[0]
	if err := cluster.MoveLeader(ctx, cluster.Members()[1]); err != nil {
		return err
	}
	if err := first.Kill(); err != nil {
		return err
	}
	meanwhile()
	return first.Restart(ctx)
}

func onEach(members []*lab.Member, act func(*lab.Member) error) func() error {
	return func() error {
		var errs []error
		for _, m := range members {
			errs = append(errs, act(m))
		}
		return errors.Join(errs...)
	}
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

// play returns a player on a site.
func play(site contract.Site) player {
	return func(ctx context.Context, scenarios []contract.Scenario) ([]transcript.Entry, error) {
		var all []transcript.Entry
		for _, s := range scenarios {
			ctx, cancel := context.WithTimeout(ctx, patience)
			entries, err := transcript.Record(s.Name, func(log *transcript.Log) {
				for i, endpoint := range site.Endpoints {
					log.Alias(endpoint, fmt.Sprintf("URL of m%d", i+1))
					log.Alias(trimScheme(endpoint), fmt.Sprintf("address of m%d", i+1))
				}
				s.Run(ctx, site, log)
			})
			cancel()
			all = append(all, entries...)
			if err != nil {
				return all, err
			}
		}
		return all, nil
	}
}
