// Package keepalive configures gRPC's keepalive, size limits and retries for both ends of
// a connection together, and rejects incompatible settings.
//
// A client that pings more often than its server allows loses the connection, and every
// call on it, to a GOAWAY with the text too_many_pings. Neither end can detect the
// mistake alone. A [Pair] holds both ends:
//
//	dialOptions := keepalive.Datacenter().DialOptions()     // in the client
//	serverOptions := keepalive.Datacenter().ServerOptions() // in the server
//
// [Pair.Validate] computes which ping of the client a grpc-go server would answer with a
// GOAWAY, and when. [Check] does this for two ends that were configured elsewhere. A
// [Preset] is a valid pair for one situation:
//
//   - [Datacenter]: both ends are yours, nothing between them drops idle connections
//   - [LoadBalancer]: NAT or a TCP load balancer is between them
//   - [Stock]: another party's server with grpc's defaults
//   - [Etcd]: the server is etcd with its defaults
//
// [Sizes] holds the limits of messages and flow-control windows. [Calls] generates a
// service config with the calls that may be repeated when a server restarts.
//
// # What happens to calls when a connection ends
//
//   - The server leaves in order (GracefulStop, MaxConnectionAge, MaxConnectionIdle):
//     it announces that with a GOAWAY. Calls that run are finished, calls that the
//     server did not accept any more are sent elsewhere by gRPC itself: no call fails,
//     whatever it is. Only MaxConnectionAgeGrace ends what takes longer; see
//     [Pair.LongestCall].
//   - The connection breaks (Stop, a crash, a dead host): calls under way fail with
//     Unavailable, and nothing tells which of them were executed. [Calls] repeats those
//     that may be, and leaves the others to be reported, once each.
//   - The peer goes silent: the client notices after Client.Time + Client.Timeout at the
//     latest if it may ping, or, when it has sent something, after Client.Timeout
//     (grpc-go sets Linux's TCP_USER_TIMEOUT to it, on plain TCP connections).
//     Client.Timeout is therefore how long a link may be interrupted
//     without the loss of its connections.
//
// All numbers about gRPC here are those of grpc-go 1.85. Nothing is registered
// with grpc, and no setting of the process is changed.
package keepalive
