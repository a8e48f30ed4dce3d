// Package scenarios is a program that uses an etcd client and writes down what it observes.
package scenarios

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/lab/contract"
	"github.com/quorate/quorate/lab/contract/transcript"
)

// Kind names scenarios that run on one cluster.
type Kind string

// The kinds.
const (
	// Pure scenarios need no server.
	Pure Kind = "pure"
	// Single scenarios run on a new cluster of one member, in their order.
	Single Kind = "single"
	// Several scenarios run on a new cluster of three members, in their order.
	Several Kind = "several"
	// Alone is for a new cluster of one member, and for what changes the whole process: nothing else may use the client.
	Alone Kind = "alone"
)

// All are the scenarios.
var All = map[Kind][]contract.Scenario{
	Pure: {
		{Name: "op", Run: ops},
		{Name: "op panics", Run: opPanics},
		{Name: "compare", Run: compares},
		{Name: "config", Run: configs},
		{Name: "new", Run: newErrors},
		{Name: "unreachable", Run: unreachable},
		{Name: "wire", Run: wire},
		{Name: "errors", Run: errorFunctions},
		{Name: "context client", Run: contextClient},
	},
	Single: {
		use("put", puts),
		use("get", gets),
		use("delete", deletes),
		use("do", dos),
		use("compact", compacts),
		use("txn", txns),
		use("txn errors", txnErrors),
		use("stream", streams),
		use("limits", limits),
		use("ended context", endedContexts),
		{Name: "hash", Run: hashes},
		{Name: "maintenance", Run: maintenance},
		use("alarm", alarms),
		use("snapshot", snapshots),
		use("downgrade", downgrades),
		use("lease", leases),
		use("keepalive", keepAlives),
		{Name: "keepalive end", Run: keepAlivesEnd},
		use("watch range", watchRanges),
		use("watch event", watchEvents),
		use("watch lease", watchLeases),
		use("watch many", manyWatches),
		use("watch late", watchLate),
		use("watch revision", watchRevisions),
		use("watch compacted", watchCompacted), // etcd 3.4 answers a negative revision only once something is compacted
		use("watch refused", watchRefused),
		use("watch large", watchLarge),
		use("watch progress", watchProgress),
		{Name: "watch end", Run: watchEnds},
		{Name: "cluster", Run: members},
		{Name: "connection", Run: connections},
		{Name: "constructors", Run: constructors},
		{Name: "interceptors", Run: interceptors},
		{Name: "files", Run: files},
		{Name: "old cluster", Run: oldCluster},
		{Name: "close", Run: closes},
		use("auth off", authOff),
		{Name: "auth", Run: authOn},
		{Name: "frozen", Run: frozen},
	},
	Several: {
		{Name: "members", Run: severalMembers},
		{Name: "endpoints", Run: endpoints},
		{Name: "leadership", Run: leadership},
		{Name: "outage", Run: outage},
		{Name: "no quorum", Run: noQuorum},
	},
	Alone: {use("unbuffered", unbuffered)},
}

// use makes a scenario of a function that needs no more than a client.
func use(name string, run func(context.Context, *clientv3.Client, *transcript.Log)) contract.Scenario {
	return contract.Scenario{Name: name, Run: func(ctx context.Context, site contract.Site, log *transcript.Log) {
		c := open(site, log)
		defer end(c, log)
		run(ctx, c, log)
	}}
}

// open makes a client for the site.
func open(site contract.Site, log *transcript.Log) *clientv3.Client {
	c, err := clientv3.New(config(site))
	log.Must(err)
	return c
}

// end closes a client.
func end(c *clientv3.Client, log *transcript.Log) { log.Error("end", c.Close()) }

// config returns a configuration for the site.
func config(site contract.Site) clientv3.Config {
	return clientv3.Config{
		Endpoints:   site.Endpoints,
		TLS:         site.TLS,
		DialTimeout: 10 * time.Second,
		Logger:      zap.NewNop(),
	}
}
