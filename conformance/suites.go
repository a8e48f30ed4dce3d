package main

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
