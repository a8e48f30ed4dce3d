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
// the deadline of the caller's context.
//
// A call without a deadline ends with its last error when it has failed for 15 s on
// endpoints that can be reached. While no endpoint can be reached it waits, without a
// bound, until its context ends: give calls a deadline.
//
// A client notices that its cluster was restored from a backup or is another one. Calls
// go on, and watches end, see [ClusterChangedError].
//
// # Security
//
// Each endpoint says whether its connections use TLS, see [Config.Endpoints]. A client
// that has TLS configured, or an endpoint that uses it, is not taken to plaintext by
// what the cluster advertises ([Config.AllowInsecureSync]), and sends no token and no
// password over a connection in clear: such a call fails with codes.Unauthenticated and
// an error that names the endpoint. Tokens rotate with [Config.TokenSource] and
// [Client.SetToken].
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
