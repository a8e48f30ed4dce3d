// Package cache serves gets of watched prefixes from memory, with the consistency of etcd, and keeps
// the keys decoded as typed objects.
//
// A [Cache] is a clientv3.KV. It loads its prefixes and follows each with a watch:
//
//	c, err := cache.New(client, cache.Config{Prefixes: []string{"config/"}})
//	…
//	defer c.Close()
//	client.KV = c
//
// # What a get costs
//
//	get                     waits for                                    costs the cluster
//	default: linearizable   a floor, and the watch to reach it           a shared count of one key
//	WithMaxStaleness(d)     nothing, while that young; else a floor      a shared count in d at most
//	NotOlderThan(rev)       the watch to reach rev                       progress requests until then
//	WithSerializable        nothing                                      nothing
//	WithRev                 nothing, within Config.MaxVersions           nothing
//
// Everything else goes to the server: writes, transactions, streams, ranges that are not within one
// prefix, revisions that are not kept, gets with outgoing gRPC metadata (but for that of
// clientv3.WithRequireLeader), and all gets until a prefix is loaded, while its watch is
// behind ([Config.MaxWait]), and when its server is not one of those below. Responses equal those of
// etcd 3.7, field by field; before 3.7 etcd's WithKeysOnly also named the leases. The revision of the
// header is that of the answer. Nothing in a response is shared with the cache.
//
// # Why it is linearizable
//
// A floor is the revision in a linearizable read's header. The read is sent after the calls of all callers that share
// it have begun: a read that is already under way may return a revision older than a write that a caller has seen
// acknowledged. The response is a state of the prefix at the floor or later, so it has every write that was
// acknowledged before the get began. No later read returns an older state: the watch delivers only what is committed,
// and later floors are not lower.
//
// The prefix has reached a revision when the watch has delivered a later event, or progress. Progress is what one
// member has applied, and proves nothing without a floor. A server answers a progress
// request only while all watches of the stream are up to date, so the cache's watches have a
// stream of their own. The request follows the floor at once, and is repeated
// after 5 ms ten times, and then ever more slowly, up to once a second.
//
// That holds for etcd from 3.4.36, 3.5.18 and 3.6.0 on, all members of the cluster. Watches of older ones lose events at compactions, for
// instance the deletion of a key at the very revision that is compacted, if the watch resumes there. For each prefix the cache asks one member for its
// version, every 10 minutes, and with backoff after an error; a member that denies it keeps events. Until the version is known, and if it is older,
// only serializable reads without a revision are answered from memory. These, and informers, may then miss what the watch misses. With kine and the
// grpc-proxy, whose progress proves nothing (clientv3.WatchResponse.IsProven), linearizable reads go to the server. [Cache.Freshness] says why reads do.
//
// # Faults
//
// A watch resumes by itself when connections and members are lost. When the revisions that it needs are compacted, the cache
// reads the keys with their revisions, and only the values that have changed ([Resynced]). When the cluster is another one,
// or was restored (clientv3.ClusterChangedError), the cache drops its keys and loads them again: within a second or two, later if that repeats.
// Unanswered progress requests reveal a watch that is stuck; it resumes on another member ([Config.ProbeInterval],
// [Cache.Freshness]). If the read of a floor fails, the reads that wait for it fail with the server's error.
//
// etcd keeps sending events to a watch after its permission was withdrawn. So once in a ProbeInterval the cache checks that all of its prefixes may
// be read, and drops the keys of those that may not: within an interval and 10 %, even if a role was only narrowed to a part of a prefix. Until then
// reads may be answered from memory, with keys that were written after the withdrawal. Each floor reads the first key of another prefix in turn, so
// if all access ends, that shows after at most as many floors as there are prefixes. Reads of a dropped prefix go to the server.
//
// # Watches
//
// [Cache.Watcher] is a clientv3.Watcher. Its watches share the one that follows the prefix, however many they are, and cost the server
// nothing. [Cache.WaitForRevision] waits until memory has a write, [Cache.Status] returns the state of each prefix.
//
// # Informers
//
// An [Informer] keeps the objects of a prefix decoded and indexed, and passes changes to handlers, with the
// old and the new object. A slow handler receives only the latest state of a key, so it delays no other and its
// memory is bounded.
package cache
