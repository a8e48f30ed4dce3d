// Package clientv3 is a client for etcd v3 with the API of
// go.etcd.io/etcd/client/v3: the same names, types and results, and a different
// behaviour when a member, a link or the whole cluster fails.
//
// A program migrates by changing its import. Responses are defined types over the
// same protobuf messages, so conversions such as (*pb.RangeResponse)(resp) keep
// compiling.
//
// # Errors
//
// A call returns one of:
//
//   - a known error of the server, unwrapped and comparable with == to the
//     variables of go.etcd.io/etcd/api/v3/v3rpc/rpctypes;
//   - ctx.Err(), unwrapped, when the caller's context ended;
//   - a *retry.UnknownOutcomeError for a write that may or may not have been
//     executed: the client does not send it again, and the caller must find out
//     what happened;
//   - any other gRPC status, unchanged.
//
// The client retries calls that are safe to repeat, such as reads, on another
// member until the deadline of the caller's context.
//
// A call without a deadline ends with its last error after 15 s of failures on
// reachable endpoints. While no endpoint is reachable it waits, unbounded, until its
// context ends: give calls a deadline.
//
// A client detects that its cluster was replaced or restored from a backup. Calls
// continue and watches end, see [ClusterChangedError].
//
// # Security
//
// The form of an endpoint decides whether its connections use TLS, see
// [Config.Endpoints]. A client that has TLS configured, or an endpoint that uses TLS,
// ignores plaintext URLs that the cluster advertises ([Config.AllowInsecureSync]) and
// sends no token or password over a plaintext connection: such a call goes to an endpoint
// with TLS, or fails with codes.Unauthenticated and an error that names the endpoint. Use
// [Config.TokenSource] or [Client.SetToken] for tokens that rotate.
//
// # Resources
//
// A [Client] holds connections and goroutines until Close. It is safe for
// concurrent use and meant to be shared. A stream that the caller reads
// ([KV.GetStream], [Maintenance.SnapshotWithVersion]) holds resources until it is
// read to the end, its context ends, or the client is closed. A watch or keepalive
// lives as long as its context. Watches and keepalives share a few streams and have
// no goroutines of their own, except for a watch whose reader is slow.
package clientv3
