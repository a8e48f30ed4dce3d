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
