package main

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
