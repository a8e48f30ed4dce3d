package fakeetcd

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// minPingInterval is etcd's default of --grpc-keepalive-min-time: clients that ping
// more often get a GOAWAY.
const minPingInterval = 5 * time.Second

// maxRecvBytes is the largest message that etcd's gRPC server accepts by default:
// --max-request-bytes, 1.5 MiB, plus 512 KiB of overhead.
const maxRecvBytes = maxRequestBytes + 512*1024

// Member is one member of a Cluster. It is safe for concurrent use.
type Member struct {
	cluster  *Cluster
	id       uint64
	name     string
	addr     string
	server   *grpc.Server
	listener *listener

	// Cluster.mu guards the rest.
	up    bool
	awake chan struct{} // closed while the member is not frozen
	conns map[*conn]struct{}
	dials int
}

func newMember(c *Cluster, index int) *Member {
	name := fmt.Sprintf("member-%d", index)
	m := &Member{
		cluster: c,
		id:      ClusterID<<16 | uint64(index+1),
		name:    name,
		addr:    name + ".fakeetcd:2379",
		up:      true,
		awake:   make(chan struct{}),
		conns:   make(map[*conn]struct{}),
	}
	close(m.awake)
	m.listener = newListener(addr(m.addr))
	m.server = grpc.NewServer(
		grpc.UnknownServiceHandler(m.serve),
		grpc.InTapHandle(claimStream),
		grpc.MaxRecvMsgSize(maxRecvBytes),
		grpc.MaxSendMsgSize(1<<31-1),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval}),
	)
	return m
}

// ID returns the member's ID.
func (m *Member) ID() uint64 { return m.id }

// Name returns the member's name, such as "member-0".
func (m *Member) Name() string { return m.name }

// Addr returns the member's host:port for DialContext.
func (m *Member) Addr() string { return m.addr }

// Endpoint returns the member's endpoint, the one client URL that MemberList
// shows for it: "http://" and its address.
func (m *Member) Endpoint() string { return "http://" + m.addr }

// Dial returns a plain gRPC connection to this member only. The caller closes it.
func (m *Member) Dial(opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	all := append(m.cluster.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	return grpc.NewClient("passthrough:///"+m.addr, append(all, opts...)...)
}

// Stop makes the member refuse connections, and breaks its open ones. In-flight
// calls are executed, but their responses are lost. A second Stop does nothing.
func (m *Member) Stop() {
	m.cluster.mu.Lock()
	m.up = false
	m.cluster.mu.Unlock()
	m.BreakConnections()
}

// Start makes a stopped member accept connections again.
func (m *Member) Start() {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	m.up = true
}

// BreakConnections closes every connection to the member, without a GOAWAY;
// undelivered data is lost. Clients may reconnect at once.
func (m *Member) BreakConnections() {
	for _, c := range locked(m.cluster, func() []*conn { return slices.Collect(maps.Keys(m.conns)) }) {
		// Closing a pipe cannot fail.
		_ = c.Close()
	}
}

// Connections returns how many connections to the member are open.
func (m *Member) Connections() int { return locked(m.cluster, func() int { return len(m.conns) }) }

// Dials returns how often clients tried to connect to the member.
func (m *Member) Dials() int { return locked(m.cluster, func() int { return m.dials }) }

// admit adds pipe to the member's connections, unless the member is stopped. The number is that of the dial.
func (m *Member) admit(number int, pipe net.Conn) (*conn, error) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if !m.up {
		return nil, syscall.ECONNREFUSED
	}
	c := newConn(m, number, pipe)
	m.conns[c] = struct{}{}
	return c, nil
}
