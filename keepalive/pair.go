package keepalive

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Client is the client's end of a pair. It has the fields of gRPC's
// ClientParameters, to which it can be converted.
type Client struct {
	// Time is how long a connection may be without anything received before the
	// client pings. 0: no pings. The least is 10 s: grpc-go raises lower values to
	// it.
	Time time.Duration

	// Timeout is how long the client waits for any sign of life after a ping before
	// it closes the connection. On Linux it is also the connection's TCP_USER_TIMEOUT:
	// sent data that stays unacknowledged that long ends it. 0: 20 s, grpc's
	// default. The least is 1 s: a pause of either process must not look like its end.
	Timeout time.Duration

	// PermitWithoutStream lets the client ping while no call is in flight. The server
	// must permit that too.
	PermitWithoutStream bool
}

// Server is the server's end of a pair: gRPC's ServerParameters and its
// EnforcementPolicy.
type Server struct {
	// MinTime is the minimum time between a client's pings; more frequent pings end in a
	// GOAWAY. 0: 5 min, grpc's default.
	MinTime time.Duration

	// PermitWithoutStream allows pings at MinTime on connections without a call. If
	// false, the server allows one ping in 2 hours there.
	PermitWithoutStream bool

	// Time is how long a connection may be without anything received before the
	// server pings. Clients accept any number of pings. 0: 2 hours, grpc's default. The
	// least is 1 s.
	Time time.Duration

	// Timeout is how long the server waits after its ping, and its connections'
	// TCP_USER_TIMEOUT. 0: 20 s, grpc's default. The least is 1 s.
	Timeout time.Duration

	// MaxConnectionIdle is how long a connection may be without a call before the
	// server closes it with a GOAWAY. Pings do not count. 0: no limit.
	MaxConnectionIdle time.Duration

	// MaxConnectionAge is how old a connection grows, give or take 10 %, before the
	// server closes it with a GOAWAY: clients then resolve and connect again, perhaps to
	// other servers. 0: no limit. The least is 1 s.
	MaxConnectionAge time.Duration

	// MaxConnectionAgeGrace is how long calls may still run after MaxConnectionAge.
	// What takes longer is cut and fails with Unavailable, streams too. 0: no limit.
	MaxConnectionAgeGrace time.Duration
}

// Pair has the keepalive settings of both ends of a connection, and what is known
// of the connection. The zero Pair is grpc's defaults: a client that does not ping.
type Pair struct {
	Client Client
	Server Server

	// IdleTimeout is the shortest idle timeout of devices on the path (NAT, a firewall, a
	// load balancer). Validate checks that pings are more frequent. 0: no device drops
	// idle connections.
	IdleTimeout time.Duration

	// LongestCall is how long the longest unary call may take, usually its deadline.
	// Validate checks that MaxConnectionAgeGrace does not cut such a call. 0: not
	// checked.
	LongestCall time.Duration
}

// grpc-go's defaults, from its internal/transport/defaults.go.
const (
	defaultMinTime    = 5 * time.Minute
	defaultServerTime = 2 * time.Hour
)

// DialOptions returns what the client gives to grpc.NewClient, or the error of
// [Pair.Validate]. A pair without Client.Time needs no options.
func (p Pair) DialOptions() ([]grpc.DialOption, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p.dialOptions(), nil
}

func (p Pair) dialOptions() []grpc.DialOption {
	// With the option, gRPC raises a Time of 0 to 10 s.
	if p.Client.Time == 0 {
		return nil
	}
	return []grpc.DialOption{grpc.WithKeepaliveParams(keepalive.ClientParameters(p.Client))}
}

// ServerOptions returns what the server gives to grpc.NewServer, or the error of
// [Pair.Validate].
func (p Pair) ServerOptions() ([]grpc.ServerOption, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p.serverOptions(), nil
}

func (p Pair) serverOptions() []grpc.ServerOption {
	s := p.Server
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle:     s.MaxConnectionIdle,
			MaxConnectionAge:      s.MaxConnectionAge,
			MaxConnectionAgeGrace: s.MaxConnectionAgeGrace,
			Time:                  s.Time,
			Timeout:               s.Timeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             s.MinTime,
			PermitWithoutStream: s.PermitWithoutStream,
		}),
	}
}
