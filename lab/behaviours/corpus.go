// Package behaviours is a corpus of the behaviours of etcd clients and servers that programs can observe. Each is written
// once, against go.etcd.io/etcd/client/v3.
//
// Most record the result and the error of each step in a [transcript.Log]. The transcripts of the official client and of Quorate
// on one server must be equal, and so must those of etcd 3.7 and of package fakeetcd. Intended differences are listed with their
// reasons in [Deliberate] and in the tests. Other behaviours check what they see: faults, loads, and what kine has too.
//
// A behaviour with an area is a row of docs/servers.md and runs on every server.
//
// With Quorate a behaviour runs in a process of its own: the command program, compiled with the shim in place of the
// official module. Setups are plain and with TLS, etcd 3.7 and etcd 3.4, authentication off and on.
package behaviours

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/servers/site"
)

// All is the corpus: the behaviours that are only recorded, and the rows of docs/servers.md, in order. Recorded behaviours of
// one setup run on one new cluster, in their order, so that revisions are the same for both clients.
var All = []Behaviour{
	{"", "op", site.None, ops},
	{"", "op panics", site.None, opPanics},
	{"", "compare", site.None, compares},
	{"", "config", site.None, configs},
	{"", "new", site.None, newErrors},
	{"", "wire", site.None, wire},
	{"", "errors", site.None, errorFunctions},

	{"", "stream", site.Single, withClient(streams)},
	{"", "ended context", site.Single, withClient(endedContexts)},
	{"", "keepalive end", site.Single, keepAlivesEnd},
	{"", "files", site.Single, files},
	{"", "close", site.Single, closes},

	{"KV", "put", site.Single, withClient(puts)},
	{"KV", "get", site.Single, withClient(gets)},
	{"KV", "delete", site.Single, withClient(deletes)},
	{"KV", "do", site.Single, withClient(dos)},
	{"KV", "compact", site.Single, withClient(compacts)},
	{"KV", "txn", site.Single, withClient(txns)},
	{"KV", "txn errors", site.Single, withClient(txnErrors)},
	{"KV", "1 MB values, in fragments", site.Plain, using(largeValues)},
	{"KV", "10,000 keys, in pages", site.Plain, using(manyKeys)},

	{"idempotent writes", "executed once, although the answer is lost", site.Own, idempotentWrites},

	{"watch", "watch range", site.Single, withClient(watchRanges)},
	{"watch", "watch event", site.Single, withClient(watchEvents)},
	{"watch", "watch revision", site.Single, withClient(watchRevisions)},
	{"watch", "watch compacted", site.Single, withClient(watchCompacted)}, // etcd 3.4 answers a negative revision only once something is compacted
	{"watch", "watch refused", site.Single, withClient(watchRefused)},
	{"watch", "watch progress", site.Single, withClient(watchProgress)},
	{"watch", "watch end", site.Single, watchEnds},
	{"watch", "progress", site.Plain, using(progress)},

	{"lease", "lease", site.Single, withClient(leases)},
	{"lease", "keepalive", site.Single, withClient(keepAlives)},
	{"lease", "keys go with it", site.Plain, using(leaseExpires)},
	{"lease", "kept alive beyond its TTL", site.Plain, across(kept, nothing)},

	{"coordination", "lock", site.Plain, across(locked, nothing)},

	{"authentication", "auth", site.Single, authentication},
	{"authentication", "tokens expire under calls", site.Tokens, asAlice(calls, expire)},
	{"authentication", "tokens expire under a watch", site.Tokens, asAlice(watched, expire)},
	{"authentication", "tokens expire before a watch", site.Tokens, asAlice(opened, expire)},
	{"authentication", "tokens expire under a keepalive", site.Tokens, asAlice(kept, expire)},
	{"authentication", "tokens expire under a lock", site.Tokens, asAlice(locked, expire)},
	{"authentication", "the server restarts under calls", site.Auth, asAlice(calls, restart)},
	{"authentication", "the server restarts under a watch", site.Auth, asAlice(watched, restart)},
	{"authentication", "the server restarts under a keepalive", site.Auth, asAlice(kept, restart)},
	{"authentication", "the connection breaks under a watch after the token's end", site.Tokens, asAlice(watched, expireAndBreak)},
	{"authentication", "switched on later, with a watch", site.Auth, authLaterWatch},
	{"authentication", "switched off", site.Auth, authSwitchedOff},
	{"TLS", "client certificates", site.TLS, across(watched, restart)},
	{"TLS", "the certificate is the user", site.TLS, tlsUser},

	{"maintenance", "hash", site.Single, withClient(hashes)},
	{"maintenance", "maintenance", site.Single, withClient(maintenance)},
	{"maintenance", "alarm", site.Single, withClient(alarms)},
	{"maintenance", "snapshot", site.Single, withClient(snapshots)},

	{"faults", "killed and restarted under a watch", site.Own, across(watched, restart)},
	{"faults", "killed and restarted under a keepalive", site.Own, across(kept, restart)},
	{"faults", "killed and restarted under a lock", site.Own, across(locked, restart)},
	{"faults", "restored from a backup: an old watch hears of it", site.Own, restored},
	{"faults", "Sync behind a proxy that the server does not know", site.Own, syncProxied},
	{"faults", "Kubernetes: 1,000 objects, 8 writers, killed and restarted", site.Own, kubernetes},
	{"faults", "frozen", site.Single, frozen}, // the last on its server: a write that was cut off may be executed later
}

// using adapts a function that needs only a client.
func using(run func(context.Context, *clientv3.Client)) runner {
	return func(ctx context.Context, s Site, _ *transcript.Log) { run(ctx, s.client()) }
}

// withClient adapts a function that needs only a client and records what it sees.
func withClient(run func(context.Context, *clientv3.Client, *transcript.Log)) runner {
	return func(ctx context.Context, s Site, log *transcript.Log) {
		c := s.client()
		defer end(c, log)
		run(ctx, c, log)
	}
}

// end closes a client.
func end(c *clientv3.Client, log *transcript.Log) { log.Error("end", c.Close()) }
