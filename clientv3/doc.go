// Package clientv3 is a client for etcd v3 with the API of
// go.etcd.io/etcd/client/v3: the same names, types and results, and a
// different behaviour when a member, a link or the whole cluster is in trouble.
//
// A program moves over by changing its import. Responses are defined types over
// the same protobuf messages, so conversions such as (*pb.RangeResponse)(resp)
// keep compiling.
//
// # Errors
//
// A call returns one of:
//
//   - an error that the server is known to send, bare and comparable with ==
//     to the variables of go.etcd.io/etcd/api/v3/v3rpc/rpctypes;
//   - ctx.Err(), bare, when the caller's context ended;
//   - a *retry.UnknownOutcomeError for a write that may or may not have been
//     executed: nothing sends it again, and only the caller can tell how to find
//     out;
//   - any other gRPC status as it is.
//
// Calls that may be repeated, reads above all, are repeated on another member until
// the deadline of the caller's context; without a deadline they end when they have
// failed for fifteen seconds. While no member can be reached at all, every call waits
// for one, as long as its context lives: give calls a deadline.
//
// # Resources
//
// A [Client] holds connections and goroutines until Close. It is safe for
// concurrent use and meant to be shared. Streams handed to the caller
// ([KV.GetStream], [Maintenance.SnapshotWithVersion]) hold theirs until they are
// read to the end, their context ends, or the client is closed. A watch and a
// keepalive live as long as their context; they share a few streams, and have no
// goroutine of their own unless a watch's reader is slower than its events.
package clientv3
