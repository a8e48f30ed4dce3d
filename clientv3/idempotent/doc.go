// Package idempotent makes writes that are executed once and whose outcome is known, also when members fail.
//
//	kv, err := idempotent.New(ctx, client, idempotent.Config{})
//	…
//	defer kv.Close()
//	client.KV = kv
//
// After a fault, a plain write may have been executed or not, and cannot be sent again: the caller gets a
// *retry.UnknownOutcomeError. A write of this package is sent again, at once and to another member, until its outcome is
// known. It is also hedged and ended early like a read: [clientv3.Config.WriteStallTimeout] does not apply.
//
// # Lanes
//
// A writer owns lanes: keys below [Config.Prefix], attached to one lease. A write is one Txn: if the mod revision of the
// lane's key is the one that the writer last saw, it writes the caller's operations and a record in the lane; otherwise
// it reads the lane. Of all copies of a request a server executes at most one, because the execution changes the mod
// revision. This holds even if a copy arrives an hour late, out of order, or after the lease has ended. The record says
// that the write was executed, at which revision, and which branch of a caller's Txn was taken. A lane has one write at
// a time; writes that are under way together use different lanes.
//
// # What a write returns
//
//   - A response, with the content that a plain write has: revision, PrevKv, Deleted, the ranges of a Txn. If the answer
//     was lost, the response is read again at the revision of the write and the one before. If that is not possible,
//     the error is a *retry.ResponseLostError with the revision: the history is compacted; the Txn has a nested Txn
//     with comparisons, whose branch no record names; it reads keys between two writes of them, or deletes keys twice;
//     or the context ended. For a put without PrevKV, nothing has to be read.
//   - An error of the server that refuses the write, such as rpctypes.ErrPermissionDenied. If an earlier copy may still be
//     executed, the write is withdrawn before the error is returned: a record takes its place.
//   - A *retry.NotSentError, which was not executed either: the context ended before anything was sent, there is no
//     lease, the KV is closed, the store is full (rpctypes.ErrNoSpace, wrapped).
//   - A *clientv3.ClusterChangedError: the cluster is another one, or was restored from a backup. All later writes of the
//     KV get it. Make a new KV.
//
// [retry.OutcomeOf] tells executed from not executed for all of these but the last. The outcome is unknown only if
//
//   - the caller's context ends, or the client is closed, while a request is under way. A write without a deadline goes
//     on until its outcome is known. The lane of a write that was given up stays usable: the next write in it finds out
//     whether the earlier one was executed, and prevents a later execution;
//   - the lane's key is deleted together with the answer: the lease ends, because no member could be reached for
//     [Config.TTL], or keys below the prefix are deleted. The error is a *retry.UnknownOutcomeError;
//   - the permission for the prefix is withdrawn while a refused write is being withdrawn.
//
// # Costs
//
// A write has one operation more, one comparison and one get, together about 150 bytes, and one more key-value of about 100
// bytes in the store's history. Of the 128 operations that etcd allows in a Txn, 126 are left to the caller's, 127 if it
// has no comparisons. It has one revision, as without. A watch of the program's
// keys sees nothing of it; a watch or a get that includes the prefix sees the lanes. The first write of a lane costs one
// Txn more, and a KV one lease with its keepalives. A get of a lost response is one Txn.
//
// With authentication on, the user needs permission to read and write the prefix. A write that includes keys below the
// prefix is refused, such as a delete of all keys: set [Config.Prefix] where that matters.
//
// Sent as by the client: gets, transactions that only read, GetStream, and Compact.
//
// # Grouped writes
//
// Package batch layered over this one groups writes of many callers in one Txn, which is one write of a lane:
//
//	client.KV = batch.New(kv, batch.Config{JoinReads: true, GroupWrites: true, MaxOps: 127})
//
// # Lifetime
//
// [KV.Close] ends the lease, which deletes the lanes. Lanes of a program that died go with the lease, after the TTL. When a
// lease is lost, the next write makes another one with other lanes.
//
// # Servers
//
// etcd from 3.4 on. [New] tries a lane, and returns the error of a server that cannot execute such a Txn: kine. etcd's
// grpc-proxy passes them on, but sends no cluster ID: behind it, a change to another cluster shows only as a lost
// lane.
package idempotent
