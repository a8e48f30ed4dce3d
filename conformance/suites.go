package main

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// etcdTests is the module of etcd's tests.
const etcdTests = "go.etcd.io/etcd/tests/v3"

// etcdSuite is etcd's own suite of client tests, the packages in the order in which
// they are run: what ends soon comes first.
var etcdSuite = suite{
	name:     "etcd",
	title:    "etcd's client suite v3.7.3",
	released: map[string]string{etcdTests: "v3.7.3"},
	folder:   "integration/clientv3/package",
	fixtures: []string{"fixtures", "integration/fixtures-expired"},
	root:     etcdTests + "/integration/clientv3",
	packages: []suitePackage{
		{name: "snapshot", tests: 2},
		{name: "examples", tests: 26},
		{name: "naming", tests: 6},
		{name: "concurrency", tests: 10},
		{name: "experimental/recipes", tests: 20},
		{name: ".", tests: 66, skips: 3, long: []string{
			"TestUnresolvableOrderViolation",
			"TestDetectTxnOrderViolation",
			"TestMaintenanceSnapshotErrorInflight",
			"TestCompactionHash",
		}},
		{name: "watch", tests: 60, skips: 1, long: []string{
			"TestV3WatchFromCurrentRevision",
			"TestV3WatchProgressOnMemberRestart",
			"TestV3WatchRestoreSnapshotUnsync",
			"TestWatchWithProgressNotifyNoEvent",
			// A put between the server's registering a watch and its reply that the watch
			// is created makes that reply's revision too high: the test takes the events
			// up to it for unexpected. It uses bare gRPC, no client.
			"TestV3WatchCurrentPutOverlap",
			// It has ten seconds for 1001 puts, one after the other, and what it is about.
			"TestV3WatchProgressWaitsForSync",
		}},
		{name: "lease", tests: 65, skips: 1, long: []string{
			"TestLeaseKeepAliveInitTimeout",
			"TestLeaseKeepAliveTTLTimeout",
			"TestLeasingSessionExpireCancel",
			"TestLeaseRenewLostQuorum", // skips itself if two members take two seconds to start
		}},
		{name: "connectivity", tests: 32, long: []string{
			"TestBalancerUnderBlackholeNoKeepAliveDelete",
			"TestBalancerUnderBlackholeNoKeepAliveTxn",
			"TestBalancerUnderBlackholeNoKeepAliveLinearizableGet",
			"TestBalancerUnderBlackholeNoKeepAliveSerializableGet",
			"TestBalancerUnderNetworkPartitionPut",
			"TestBalancerUnderNetworkPartitionDelete",
			"TestBalancerUnderNetworkPartitionLinearizableGetWithShortTimeout",
		}},
	},
}

// dependentsSuite is the etcd tests of well-known programs that use the official
// client, those that need nothing but an etcd server.
var dependentsSuite = suite{
	name:  "dependents",
	title: "The etcd tests of users of the client",
	released: map[string]string{
		"github.com/coredns/coredns":             "v1.15.0",
		"github.com/google/trillian":             "v1.8.0",
		"github.com/kitex-contrib/registry-etcd": "v0.2.6",
		"github.com/zeromicro/go-zero":           "v1.10.3",
		"k8s.io/apiserver":                       "v0.37.2",
	},
	tags: "etcd", // CoreDNS keeps its tests behind it
	etcd: "localhost:2379",
	packages: []suitePackage{
		{name: "github.com/coredns/coredns/plugin/etcd", tests: 10},
		{name: "github.com/google/trillian/quota/etcd/etcdqm", tests: 5},
		{name: "github.com/google/trillian/quota/etcd/quotaapi", tests: 14},
		{name: "github.com/google/trillian/quota/etcd/storage", tests: 12},
		{name: "github.com/zeromicro/go-zero/core/discov", tests: 28},
		{name: "github.com/zeromicro/go-zero/core/discov/internal", tests: 22, long: []string{
			"TestClusterWatch_CloseChan",
		}},
		{name: "github.com/kitex-contrib/registry-etcd", tests: 10},
		{name: "k8s.io/apiserver/pkg/storage/etcd3/metrics", tests: 7},
		{name: "k8s.io/apiserver/pkg/storage/etcd3/preflight", tests: 8},
		{name: "k8s.io/apiserver/pkg/storage/etcd3", tests: 70, long: []string{
			"TestWatch",
			"TestCreateWithTTL",
			"TestGuaranteedUpdateWithTTL",
			// It waits for each compaction for a tenth of a second.
			"TestCompact",
		}, stream: []string{
			"TestGetListStreamMultiChunk",
			"TestWatchChanSync/RangeStream",
			"TestWatchChanSyncStreamMatchesPaginated",
			"TestWatchChanSyncStreamCompactionError",
			"TestWatchChanSyncStreamMetrics",
		}, empty: []string{"TestTooLargeResourceVersionErrorForWatchList"}},
	},
}

// ciliumSuite is the tests of Cilium's store of keys, with an address and a switch of their own.
var ciliumSuite = suite{
	name:     "cilium",
	title:    "The tests of Cilium's kvstore v1.20.2",
	released: map[string]string{"github.com/cilium/cilium": "v1.20.2"},
	apart:    true,
	etcd:     "localhost:4002",
	environ:  []string{"INTEGRATION_TESTS=true"},
	packages: []suitePackage{{name: "github.com/cilium/cilium/pkg/kvstore", tests: 29}},
}

// robustnessSuite is etcd's own robustness tests: traffic of many clients while members fail, and a history that must be
// linearizable, with watches that keep their promises. The tests choose most faults at random.
var robustnessSuite = suite{
	name:     "robustness",
	title:    "etcd's robustness tests v3.7.3",
	released: map[string]string{etcdTests: "v3.7.3"},
	folder:   "robustness",
	fixtures: []string{"fixtures"},
	servers:  map[string]string{"etcd": "v3.7.3", "etcd-last-release": "v3.6.16"},
	packages: []suitePackage{{name: etcdTests + "/robustness", tests: 2}},
}

// suite is a set of tests that were written for the official client.
type suite struct {
	name, title string
	// released are the modules that the tests are of, and the versions that their
	// numbers below were counted in.
	released map[string]string
	// apart says that go.mod does not have these modules: it would get newer versions of others from them.
	apart bool
	// root is the path that the names of the packages are below.
	root string
	// folder is where the tests run, below the root of the module "tests". Some open sockets in the directory that they
	// run in, and the suite's own is in the module cache, which is read-only.
	folder string
	// fixtures are folders of that module that its tests look for above the one that they run in.
	fixtures []string
	// servers are the releases of etcd that the tests start, built with fail points, by the name of the executable.
	servers map[string]string
	tags    string   // build tags
	environ []string // what the tests have in their environment besides
	// etcd is where the tests expect a server; "" if they start their own.
	etcd     string
	packages []suitePackage
}

var suites = []suite{etcdSuite, dependentsSuite, ciliumSuite, robustnessSuite}

func suiteNamed(name string) (suite, error) {
	var known []string
	for _, s := range suites {
		if s.name == name {
			return s, nil
		}
		known = append(known, s.name)
	}
	return suite{}, fmt.Errorf("there is no suite %q: the suites are %s", name, strings.Join(known, ", "))
}

// suitePackage is one package of the suite.
type suitePackage struct {
	// name is the path below the suite's root; "." is the root.
	name string
	// tests is how many tests and examples with output the package has.
	tests int
	// skips is how many of them skip themselves: they ask for a server built with fail
	// points, or are marked as broken.
	skips int
	// long are the tests that the short form leaves out. Each takes three seconds or
	// more, and what it shows of the client, a faster one shows too; or it fails now and then,
	// with the official client too, where processors are scarce, for the reason beside it.
	long []string
	// stream are tests, or parts of tests, of RangeStream, which no server before etcd
	// 3.7 has.
	stream []string
	// empty are tests that count from the revision of an empty etcd; kine begins with
	// a key of its own.
	empty []string
}

func (s suite) importPath(p suitePackage) string { return path.Join(s.root, p.name) }

// choose returns the packages of the suite with the given names; all of them for no
// names.
func (s suite) choose(wanted []string) ([]suitePackage, error) {
	for _, name := range wanted {
		if !slices.Contains(names(s.packages), name) {
			return nil, fmt.Errorf("the suite has no package %q: its packages are %s", name, strings.Join(names(s.packages), ", "))
		}
	}
	if len(wanted) == 0 {
		return s.packages, nil
	}
	return slices.DeleteFunc(slices.Clone(s.packages), func(p suitePackage) bool { return !slices.Contains(wanted, p.name) }), nil
}

func names(packages []suitePackage) []string {
	all := make([]string, 0, len(packages))
	for _, p := range packages {
		all = append(all, p.name)
	}
	return all
}

// selection is what is run of a suite.
type selection struct {
	suite    suite
	packages []suitePackage
	run      string // regular expression of the tests' names; "" matches all
	short    bool
	server   string // path of a server to run on in place of the tests' own, "" for those
}

// arguments returns the arguments of "go test" for the selection.
func (s selection) arguments() []string {
	var args []string
	if s.suite.tags != "" {
		args = append(args, "-tags="+s.suite.tags)
	}
	if s.run != "" {
		args = append(args, "-run="+s.run)
	}
	omitted := make([]string, 0, len(s.packages))
	for _, p := range s.packages {
		omitted = append(omitted, s.omitted(p)...)
	}
	if len(omitted) > 0 {
		args = append(args, "-skip=^"+strings.ReplaceAll(strings.Join(omitted, "$|^"), "/", "$/^")+"$")
	}
	for _, p := range s.packages {
		args = append(args, s.suite.importPath(p))
	}
	return args
}

// omitted returns the tests of a package, and the parts of tests, that are left out.
func (s selection) omitted(p suitePackage) []string {
	var names []string
	if s.short {
		names = append(names, p.long...)
	}
	if s.server != "" {
		names = append(names, p.stream...)
	}
	if filepath.Base(s.server) == "kine" {
		names = append(names, p.empty...)
	}
	return names
}

// audit returns what is wrong with the numbers of a package's tests: an empty run
// must not pass for a good one. With --run the number is unknown.
func (s selection) audit(p suitePackage, c counts) error {
	want := p.tests
	for _, name := range s.omitted(p) {
		if !strings.Contains(name, "/") {
			want--
		}
	}
	got := c.passed + c.failed + c.skipped
	skips := p.skips
	if s.short {
		// A test looks for goroutines once, without waiting. On busy processors it may find one that is about to end.
		skips += min(c.unclean, 1)
	}
	switch {
	case s.run != "":
		return nil
	case got != want:
		return fmt.Errorf("%d tests ran, want %d", got, want)
	case c.skipped > skips:
		return fmt.Errorf("%d tests were skipped, want at most %d", c.skipped, skips)
	}
	return nil
}
