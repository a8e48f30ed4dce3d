package keepalive

import (
	"time"

	"google.golang.org/grpc"
)

// Preset is a valid [Pair] for one situation.
type Preset struct{ pair Pair }

// Pair returns a copy of the preset's settings, which the caller may change.
func (p Preset) Pair() Pair { return p.pair }

// DialOptions returns what the client gives to grpc.NewClient.
func (p Preset) DialOptions() []grpc.DialOption { return p.pair.dialOptions() }

// ServerOptions returns what the server gives to grpc.NewServer.
func (p Preset) ServerOptions() []grpc.ServerOption { return p.pair.serverOptions() }

// Datacenter is for ends that are both yours, on a network where nothing forgets
// idle connections. A silent server is noticed within 15 s, on idle
// connections too.
//
// The client pings every 10 s, the most that gRPC allows. Its Timeout of 5 s
// outlasts four retransmissions of TCP, which come 0.2, 0.6, 1.4 and 3 s after the
// loss of a packet. The server allows twice the pings that the client sends, and
// pings only clients that have been silent for 30 s, which are those without
// keepalive.
//
// An idle client costs the server one ping in 10 s. With more than some ten
// thousand idle clients on a server, set Client.Time to a minute.
func Datacenter() Preset {
	return Preset{Pair{
		Client: Client{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true},
		Server: Server{MinTime: 5 * time.Second, PermitWithoutStream: true, Time: 30 * time.Second, Timeout: 10 * time.Second},
	}}
}

// LoadBalancer is for ends that are both yours with NAT, a firewall or a balancer
// of TCP connections between them. Pings every 30 s come twice within its
// IdleTimeout of 60 s, which is the shortest of
//
//   - AWS Classic Load Balancer, 60 s by default:
//     https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/config-idle-timeout.html
//   - AWS Network Load Balancer, 350 s by default, at least 60 s:
//     https://docs.aws.amazon.com/elasticloadbalancing/latest/network/update-idle-timeout.html
//   - Azure Load Balancer, 4 min by default and at least:
//     https://learn.microsoft.com/en-us/azure/load-balancer/load-balancer-tcp-reset
//
// The server also pings, so that clients without keepalive keep their connections. It
// ends connections after about half an hour: behind such a balancer that is the only
// way by which clients find servers that were added. MaxConnectionAgeGrace is left
// at no limit, so no call and no stream is cut; a stream stays where it is until it
// ends.
//
// A proxy that speaks HTTP/2 itself (nginx with grpc_pass, Envoy, the Application Load
// Balancer) answers the client's pings and does not pass them on. There a pair describes
// the connection to the proxy or that from it, and the proxy's own settings decide what it
// does to a quiet stream (nginx's grpc_read_timeout, 60 s by default).
func LoadBalancer() Preset {
	return Preset{Pair{
		Client: Client{Time: 30 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true},
		Server: Server{
			MinTime: 15 * time.Second, PermitWithoutStream: true,
			Time: 45 * time.Second, Timeout: 10 * time.Second,
			MaxConnectionAge: 30 * time.Minute,
		},
		IdleTimeout: 60 * time.Second,
	}}
}

// Stock is for another party's server that runs with gRPC's defaults, in Go, Java or C++:
// at most one ping in 5 min, none while no call is under way. Half a minute more than
// that leaves room for clocks that differ, and comes before the 350 s of an AWS Network
// Load Balancer.
//
// Connections without calls are not kept alive; the server forbids it. If something on
// the path forgets them, use grpc.WithIdleTimeout with less than its time, so that the
// client closes them first: 3 min for an Azure Load Balancer.
func Stock() Preset {
	return Preset{Pair{
		Client: Client{Time: 5*time.Minute + 30*time.Second, Timeout: 20 * time.Second},
	}}
}

// Etcd is for etcd with its default flags: --grpc-keepalive-min-time=5s,
// --grpc-keepalive-interval=2h, --grpc-keepalive-timeout=20s (3.7.3). etcd has no flag that
// allows pings without a call, so a client that sets PermitWithStream
// (PermitWithoutStream here) against it is refused.
//
// The client's values are the defaults of this library's clientv3, whose
// Config.DialKeepAliveTime and DialKeepAliveTimeout they are. To check others:
//
//	pair := keepalive.Etcd().Pair()
//	pair.Client.Time = cfg.DialKeepAliveTime
//	err := pair.Validate()
func Etcd() Preset {
	return Preset{Pair{
		Client: Client{Time: 10 * time.Second, Timeout: 20 * time.Second},
		Server: Server{MinTime: 5 * time.Second, Time: 2 * time.Hour, Timeout: 20 * time.Second},
	}}
}
