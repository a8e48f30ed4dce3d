// Package batch lets the calls of one client share RPCs: gets of many goroutines travel
// in one request, and so do small writes.
//
//	client.KV = batch.New(client.KV, batch.Config{JoinReads: true, GroupWrites: true})
//
// The first calls are sent at once and unchanged: up to [Config.MaxAlone] at a time, and in proportion more where a
// round trip takes longer than 2 ms. So a program with few concurrent calls sees no difference. Further calls wait, and
// are sent together in one Txn: when nothing is in flight, when they fill a Txn, or when they have waited for a
// sixteenth of the usual time of an RPC, 0.5 ms at least and 50 ms at most. So no call waits for an RPC that hangs, and
// a long round trip is not doubled.
//
// # Joined reads
//
// Equal gets become one get, different ones the operations of one read-only Txn. A get
// joins only an RPC that has not been sent yet: one in flight may already have been
// executed, before a write that the caller of the get saw finish. So joined gets are
// linearizable like plain ones.
//
// Joined are linearizable gets of one key, of ranges with a limit of 1 to 100, and counts.
// All other gets are sent as they are: serializable gets, gets at a revision, sorted and
// filtered gets, other ranges, GetStream. The size of earlier responses bounds the gets of
// an RPC, so that its response has about 4 MiB at most.
//
// When an RPC that several gets share fails, each of them is sent again, alone and with the
// context of its caller. In an outage only gets with a deadline are: the RPC was tried for 15 s, as a get without one
// is, so the others fail with its error. Gets of a key that the server then denies are sent alone for a second, so that they do not
// make others fail.
//
// # Grouped writes
//
// Puts of up to 64 KiB become the operations of one Txn, and deletes of one key those of
// another, which a store that is full still accepts. Each write takes effect once at most,
// between its call and its return, as if sent alone. Five things differ, which is why grouping
// has to be asked for:
//
//   - The writes of a group have one revision. Keys that it creates have the same
//     CreateRevision, and a watch receives all of them in one response. A program that
//     orders keys by revision must write them by a Txn of its own; the locks,
//     elections and queues of this module do.
//   - When the outcome of the RPC is unknown, so are the outcomes of all its writes. Each
//     caller gets the *retry.UnknownOutcomeError, and nothing is sent again.
//   - When the server refuses the content of the RPC, for example because a lease has ended or the user may
//     not write a key, nothing of it was executed. It is sent again in four parts, and so on until the
//     refused write is alone: 15 RPCs and four round trips more for a group of 128. Writes with the refused
//     lease, or to the refused key, are then sent alone for a second, so that they cost groups no more than
//     that.
//   - When the cluster refuses the RPC, because it is overloaded or has no leader, the group is tried again as a whole:
//     until the last deadline of its callers, or, if one has none, until it has failed for 15 s. Then each gets the refusal.
//   - Interceptors and proxies see a Txn instead of Put and DeleteRange.
//
// Sent as they are: a Txn of the program, a delete of a range, and a write to a key for which
// another one waits. Writes of different callers that are under way at the same time
// have no order, with this package as without it.
//
// # Contexts
//
// An RPC that calls share has a context of its own, without the values and deadlines of
// the callers'. It ends when no caller waits any more. A caller whose context ends returns
// at once with the context's error. A write that was not sent by then is never sent: its error is a
// *retry.NotSentError, and retry.OutcomeOf says that it was not executed.
// Calls with outgoing gRPC metadata, such as that of [clientv3.WithRequireLeader], are sent
// as they are.
//
// # Life
//
// There is nothing to close. While no call is under way, a KV of this package has no
// goroutine and no timer. Close of the client ends the calls that wait, too.
//
// # Metrics
//
// [KV.Metrics] returns the number of calls, of RPCs by size, and of waiting calls.
// Packages observe/prometheus and observe/otel report them.
//
// # Servers
//
// A server whose --max-txn-ops or --max-request-bytes are below the bounds of [Config]
// refuses the first RPCs, and the bounds are lowered. kine refuses all such Txns; use this
// package with etcd.
package batch
