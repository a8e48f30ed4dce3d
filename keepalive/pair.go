package keepalive

import (
	"cmp"
	"errors"
	"fmt"
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

const (
	// minClientTime is grpc-go's own limit (internal.KeepaliveMinPingTime).
	minClientTime = 10 * time.Second

	// minDuration is the least of all other durations. grpc-go raises Server.Time to
	// it, and a server with a MaxConnectionAge of less than 10 ns panics.
	minDuration = time.Second

	// maxDuration keeps sums of durations from overflowing, which grpc-go does not
	// check.
	maxDuration = 365 * 24 * time.Hour

	// goAwaySlack is how much later than the GOAWAY a call may begin, because both may
	// be on their way at the same time.
	goAwaySlack = time.Second
)

// Check returns nil if a client and a server with these settings are compatible, a
// [*TooManyPingsError] if the server would close the client's connections because of its
// pings, or an error that names an invalid field. Several errors are joined; errors.As
// finds each.
//
// The result does not depend on the traffic of the connections, and no other setting
// hides a fault: Check rejects the client's fourth ping even if the server's own pings or
// MaxConnectionIdle usually come before it.
//
// Check misses one case, if neither end permits pings without a stream, as in [Stock] and
// [Etcd]. The client then pings when a call ends a long silence, and if the call is
// canceled in that instant, the ping arrives after its end. The third such call in a row
// without a response to any other draws the GOAWAY. A server that permits pings without a
// stream avoids this, so permit it on your own servers.
func Check(c Client, s Server) error {
	if err := errors.Join(append(c.faults(), s.faults()...)...); err != nil {
		return err
	}
	return checkPings(c, s)
}

// Validate returns nil if the pair is valid. Otherwise it returns the errors of [Check],
// an error if pings are too rare for IdleTimeout, and an error if MaxConnectionAgeGrace
// is too short for LongestCall. Several errors are joined.
func (p Pair) Validate() error {
	faults := p.Client.faults()
	faults = append(faults, p.Server.faults()...)
	faults = append(faults,
		within("IdleTimeout", p.IdleTimeout, minDuration),
		within("LongestCall", p.LongestCall, 1))
	if err := errors.Join(faults...); err != nil {
		return err
	}
	return errors.Join(checkPings(p.Client, p.Server), p.checkIdleTimeout(), p.checkGrace())
}

func (c Client) faults() []error {
	var faults []error
	if c.Time == 0 && (c.Timeout != 0 || c.PermitWithoutStream) {
		faults = append(faults, errors.New("keepalive: Client.Time is 0, so there are no pings: set it, or leave Client.Timeout and Client.PermitWithoutStream out"))
	}
	if c.Time > 0 && c.Time < minClientTime {
		faults = append(faults, fmt.Errorf("keepalive: Client.Time: %v; grpc-go raises it to %v: write that, or more", c.Time, minClientTime))
	} else {
		faults = append(faults, within("Client.Time", c.Time, minClientTime))
	}
	return append(faults, within("Client.Timeout", c.Timeout, minDuration))
}

func (s Server) faults() []error {
	faults := []error{
		within("Server.MinTime", s.MinTime, 1),
		within("Server.Time", s.Time, minDuration),
		within("Server.Timeout", s.Timeout, minDuration),
		within("Server.MaxConnectionIdle", s.MaxConnectionIdle, minDuration),
		within("Server.MaxConnectionAge", s.MaxConnectionAge, minDuration),
		within("Server.MaxConnectionAgeGrace", s.MaxConnectionAgeGrace, minDuration),
	}
	if s.MaxConnectionAgeGrace != 0 && s.MaxConnectionAge == 0 {
		faults = append(faults, errors.New("keepalive: Server.MaxConnectionAgeGrace has no effect without Server.MaxConnectionAge: set both or neither"))
	}
	return faults
}

// within reports a duration that is neither 0 nor between least and maxDuration.
func within(field string, d, least time.Duration) error {
	switch {
	case d == 0 || d >= least && d <= maxDuration:
		return nil
	case d > maxDuration:
		return fmt.Errorf("keepalive: %s: %v; it must be at most %v, or 0 for the default", field, d, maxDuration)
	default:
		return fmt.Errorf("keepalive: %s: %v; it must be at least %v, or 0 for the default", field, d, least)
	}
}

// checkIdleTimeout checks that something is sent on a quiet connection before
// devices on the path forget it.
func (p Pair) checkIdleTimeout() error {
	if p.IdleTimeout == 0 {
		return nil
	}
	ping := cmp.Or(p.Server.Time, defaultServerTime)
	if p.Client.Time > 0 {
		ping = min(ping, p.Client.Time)
	}
	if ping >= p.IdleTimeout {
		return fmt.Errorf("keepalive: IdleTimeout: a quiet stream is forgotten after %v, the first ping comes after %v: set Client.Time or Server.Time to less than %v, half of it if you can",
			p.IdleTimeout, ping, p.IdleTimeout)
	}
	idle := cmp.Or(p.Server.Time, defaultServerTime)
	if p.Client.PermitWithoutStream {
		idle = min(idle, p.Client.Time)
	}
	if p.Server.MaxConnectionIdle > 0 {
		idle = min(idle, p.Server.MaxConnectionIdle)
	}
	if idle >= p.IdleTimeout {
		return fmt.Errorf("keepalive: IdleTimeout: a connection without calls is forgotten after %v, and nothing is sent on it for %v: "+
			"permit pings without a stream on both ends, or set Server.Time or Server.MaxConnectionIdle to less than %v", p.IdleTimeout, idle, p.IdleTimeout)
	}
	return nil
}

// checkGrace checks that an aged connection outlives its calls.
func (p Pair) checkGrace() error {
	grace, need := p.Server.MaxConnectionAgeGrace, p.LongestCall+goAwaySlack
	if grace == 0 || p.LongestCall == 0 || grace >= need {
		return nil
	}
	return fmt.Errorf("keepalive: Server.MaxConnectionAgeGrace: %v; a call of %v (LongestCall) that begins while the GOAWAY is on its way would be cut: set it to at least %v, or to 0 for no limit",
		grace, p.LongestCall, need)
}
