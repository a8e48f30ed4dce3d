// Package cache serves gets of watched prefixes from memory, as linearizable as etcd does, and keeps
// typed objects of them.
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
//	NotOlderThan(rev)       the watch to reach rev                       a progress request at most
//	WithSerializable        nothing                                      nothing
//	WithRev                 nothing, within Config.MaxVersions           nothing
//
// Everything else goes to the server: writes, transactions, streams, ranges that are not within one
// prefix, revisions that are not kept, and all gets until a prefix is loaded, while its watch is
// behind ([Config.MaxWait]), and when its server is not one of those below. Answers are those of
// etcd 3.7, field by field; before 3.7 etcd's WithKeysOnly also named the leases. The revision of the
// header is that of the answer. Nothing in a response is shared with the cache.
//
// # Why it is linearizable
//
// A floor is the revision in a linearizable read's header. The read is sent after each of the callers that
// share it has begun: one that is already under way may return a revision older than a write that
// a caller has seen acknowledged. The answer is a state of the prefix at the floor or later, so it
// has every write that was acknowledged before the get began. And it has nothing that a later read would not see:
// the watch delivers only what is committed, and a later floor is not below that.
//
// The prefix has reached a revision when the watch has delivered a later event, or progress. Progress is what one
// member has applied, and proves nothing without a floor. A server answers a progress
// request only while all watches of the stream are up to date, so the cache's watches have a
// stream of their own. The request follows the floor at once, and is repeated
// after 5 ms ten times, and then ever more slowly, up to once a second.
//
// That holds for etcd from 3.4.31 and 3.5.13 on, all members of the cluster. Older ones, kine and the
// grpc-proxy are found out (clientv3.WatchResponse.IsProven, and the version that one member names), and
// get plain linearizable reads; serializable ones and informers work with them.
//
// # Faults
//
// A watch goes on by itself through lost connections and members. When what it needs was compacted, the
// cache reads the keys with their revisions, and the values of those only that have changed
// ([Resynced]). When the cluster is another one, or was restored (clientv3.ClusterChangedError), what is held is dropped
// and loaded anew, within a second or two. A watch that is stuck is noticed by unanswered progress
// requests, and goes on over another member ([Config.ProbeInterval], [Cache.Freshness]). A permission
// that is withdrawn shows when the watch is created anew, for etcd checks it only then; what is held is dropped then.
// Reads meanwhile go to the server; a floor that fails fails the reads that wait for it, with the server's error.
//
// # Informers
//
// An [Informer] keeps the objects of a prefix decoded and indexed, and tells handlers of changes with the
// old and the new object. A handler that is slow is told of the latest state of a key
// only, so it holds up nobody and its memory is bounded.
package cache
