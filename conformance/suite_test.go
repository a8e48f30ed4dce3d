package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArguments(t *testing.T) {
	chosen, err := etcdSuite.choose([]string{"lease", "."})
	require.NoError(t, err)
	require.Equal(t, []string{".", "lease"}, names(chosen))
	chosen[0].slow, chosen[0].racy, chosen[1].slow = []string{"TestA"}, []string{"TestB"}, []string{"TestC"}

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
	p := suitePackage{name: "watch", tests: 10, skips: 2, slow: []string{"TestA", "TestB"}, racy: []string{"TestC"}, stream: []string{"TestD", "TestE/F"}}
	tests := []struct {
		name      string
		selection selection
		result    result
		want      string // "" for good
	}{
		{"all", selection{}, result{passed: 8, skipped: 2}, ""},
		{"fewer skipped", selection{}, result{passed: 10}, ""},
		{"short", selection{short: true}, result{passed: 5, skipped: 2}, ""},
		{"on a server without streams", selection{server: "etcd"}, result{passed: 9}, ""},
		{"named", selection{run: "X"}, result{passed: 1}, ""},
		{"empty", selection{}, result{}, "0 tests ran, want 10"},
		{"one is missing", selection{}, result{passed: 7, skipped: 2}, "9 tests ran, want 10"},
		{"one too many", selection{}, result{passed: 9, skipped: 2}, "11 tests ran, want 10"},
		{"all of them in the short form", selection{short: true}, result{passed: 8, skipped: 2}, "10 tests ran, want 7"},
		{"all skipped", selection{}, result{skipped: 10}, "10 tests were skipped, want at most 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.selection.audit(p, tt.result)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
		})
	}
}

func TestCheckModules(t *testing.T) {
	var (
		tests    = module{Path: etcdTests, Version: "v3.7.3"}
		official = module{Path: clientModule, Version: clientVersion}
		ours     = module{Path: clientModule, Version: clientVersion, Replace: &module{Path: "../compat/clientv3"}}
		checkout = module{Path: quorateModule, Version: "v0.0.0", Replace: &module{Path: "../"}}
	)
	cases := []struct {
		name     string
		modules  []module
		official bool
		want     string
	}{
		{"Quorate", []module{tests, ours, checkout}, false, ""},
		{"official", []module{tests, official}, true, ""},
		{"official in place of Quorate", []module{tests, official, checkout}, false, "the client is not Quorate: go.etcd.io/etcd/client/v3 is go.etcd.io/etcd/client/v3 v3.7.3"},
		{"another replacement", []module{tests, {Path: clientModule, Replace: &module{Path: "../fork"}}, checkout}, false, "not Quorate"},
		{"no client", []module{tests, checkout}, false, "is absent"},
		{"a released Quorate", []module{tests, ours, {Path: quorateModule, Version: "v1.0.0"}}, false, "not the Quorate of this checkout"},
		{"Quorate in place of the official client", []module{tests, ours, checkout}, true, "it is ../compat/clientv3"},
		{"another suite", []module{{Path: etcdTests, Version: "v3.8.0"}, ours, checkout}, false, "it is go.etcd.io/etcd/tests/v3 v3.8.0"},
		{"a patched suite", []module{{Path: etcdTests, Version: "v3.7.3", Replace: &module{Path: "../tests"}}, ours, checkout}, false, "it is ../tests"},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			found := map[string]module{}
			for _, m := range tt.modules {
				found[m.Path] = m
			}
			err := etcdSuite.check(found, tt.official)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
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
