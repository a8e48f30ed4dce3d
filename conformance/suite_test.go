package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/fatal"
)

func TestArguments(t *testing.T) {
	chosen, err := etcdSuite.choose([]string{"lease", "."})
	require.NoError(t, err)
	require.Equal(t, []string{".", "lease"}, names(chosen))
	chosen[0].long, chosen[1].long = []string{"TestA", "TestB"}, []string{"TestC"}

	require.Equal(t, []string{
		"-run=Put|Get",
		"-skip=^TestA$|^TestB$|^TestC$",
		"go.etcd.io/etcd/tests/v3/integration/clientv3",
		"go.etcd.io/etcd/tests/v3/integration/clientv3/lease",
	}, selection{suite: etcdSuite, packages: chosen, run: "Put|Get", short: true}.arguments())
	require.Equal(t, []string{
		"go.etcd.io/etcd/tests/v3/integration/clientv3",
	}, selection{suite: etcdSuite, packages: chosen[:1]}.arguments())
	chosen[0].stream, chosen[0].empty = []string{"TestA/B"}, []string{"TestD"}
	for server, want := range map[string]string{"/bin/etcd": "-skip=^TestA$/^B$", "/bin/kine": "-skip=^TestA$/^B$|^TestD$"} {
		require.Equal(t, want, selection{suite: etcdSuite, packages: chosen[:1], server: server}.arguments()[0])
	}
}

// TestNothingIsLeftOut pins the whole suite: without flags, nothing is skipped.
func TestNothingIsLeftOut(t *testing.T) {
	all, err := etcdSuite.choose(nil)
	require.NoError(t, err)
	require.Len(t, all, 9)
	require.Len(t, selection{suite: etcdSuite, packages: all}.arguments(), 9)
	var tests, skips int
	for _, p := range all {
		tests += p.tests
		skips += p.skips
	}
	require.Equal(t, 287, tests)
	require.Equal(t, 5, skips)
}

func TestAudit(t *testing.T) {
	p := suitePackage{name: "watch", tests: 10, skips: 2, long: []string{"TestA", "TestB", "TestC"}, stream: []string{"TestD", "TestE/F"}}
	tests := []struct {
		name      string
		selection selection
		counts    counts
		want      string // "" for good
	}{
		{"all", selection{}, counts{passed: 8, skipped: 2}, ""},
		{"fewer skipped", selection{}, counts{passed: 10}, ""},
		{"short", selection{short: true}, counts{passed: 5, skipped: 2}, ""},
		{"one finds goroutines in the short form", selection{short: true}, counts{passed: 4, skipped: 3, unclean: 1}, ""},
		{"two find goroutines in the short form", selection{short: true}, counts{passed: 3, skipped: 4, unclean: 2}, "4 tests were skipped, want at most 3"},
		{"one more skipped in the short form", selection{short: true}, counts{passed: 4, skipped: 3}, "3 tests were skipped, want at most 2"},
		{"one finds goroutines", selection{}, counts{passed: 7, skipped: 3, unclean: 1}, "3 tests were skipped, want at most 2"},
		{"on a server without streams", selection{server: "etcd"}, counts{passed: 9}, ""},
		{"named", selection{run: "X"}, counts{passed: 1}, ""},
		{"empty", selection{}, counts{}, "0 tests ran, want 10"},
		{"one is missing", selection{}, counts{passed: 7, skipped: 2}, "9 tests ran, want 10"},
		{"one too many", selection{}, counts{passed: 9, skipped: 2}, "11 tests ran, want 10"},
		{"all of them in the short form", selection{short: true}, counts{passed: 8, skipped: 2}, "10 tests ran, want 7"},
		{"all skipped", selection{}, counts{skipped: 10}, "10 tests were skipped, want at most 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.selection.audit(p, tt.counts)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
		})
	}
}

// TestCheck finds a build that is not over the client that was asked for.
func TestCheck(t *testing.T) {
	b := &build{suite: etcdSuite, official: true}
	requireWithout := func(module string) {
		require.ErrorContains(t, fatal.Catch(func() { b.check(t.Context()) }), "without "+module)
	}
	requireWithout("go.etcd.io/etcd/client/v3 v3.7.3")
	b = &build{suite: etcdSuite, dir: t.TempDir()}
	b.editModule(t.Context(), "-dropreplace="+clientModule)
	requireWithout("go.etcd.io/etcd/client/v3 => ../compat/clientv3")
	b.official, b.suite.released = true, map[string]string{etcdTests: "v3.8.0"}
	requireWithout("go.etcd.io/etcd/tests/v3 v3.8.0")
}

// TestModules asks the go command what the suites are compiled with here.
func TestModules(t *testing.T) {
	for _, s := range suites {
		for _, official := range []bool{false, true} {
			b, err := newBuild(t.Context(), s, official)
			require.NoError(t, err, "%s, official %t", s.name, official)
			require.NoError(t, b.remove())
		}
	}
}
