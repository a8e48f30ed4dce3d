package fakeetcd

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/auth"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/store"
)

// ClusterID is the cluster ID in every response header.
const ClusterID = 0xfa4e

// maxMembers is far more than any real cluster has, and keeps a member's index
// small enough for its ID.
const maxMembers = 1000

// Cluster is a fake etcd cluster. It is safe for concurrent use.
type Cluster struct {
	members []*Member

	// background counts the goroutines that outlive the call that started them.
	background sync.WaitGroup

	kineIDs atomic.Int64 // watch IDs with WatchOptions.Kine

	// mu guards what follows. A call that has one response is executed with it, and a stream without it. No hook is called with it.
	mu sync.Mutex
	leadership
	store        *store.Store
	auth         *auth.Store
	hooks        []*Hook // in the order of registration
	records      []*Record
	counts       map[string]int // of records, by method
	arrived      chan struct{}  // closed when a call arrives, nil without waiters
	onDial       func(ctx context.Context, m *Member) error
	watchOptions WatchOptions
	leasesExpire bool
}

// Start runs a cluster of n members over an empty store: revision 1, no users, the
// first member is the leader. It fails unless n is between 1 and 1000. The caller
// must Close the cluster.
func Start(n int) (*Cluster, error) {
	if n < 1 || n > maxMembers {
		return nil, fmt.Errorf("fakeetcd: a cluster of %d members cannot be started: ask for 1 to %d", n, maxMembers)
	}
	c := &Cluster{store: store.New(), auth: auth.New(), counts: make(map[string]int)}
	if err := c.SetWatchOptions(WatchOptions{}); err != nil {
		return nil, err
	}
	for i := range n {
		c.members = append(c.members, newMember(c, i))
	}
	c.leadership = leadership{leader: c.members[0], term: firstTerm, lost: make(chan struct{})}
	for _, m := range c.members {
		c.background.Go(func() {
			// Serve ends only because Close stops the server.
			_ = m.server.Serve(m.listener)
		})
	}
	return c, nil
}

// Close breaks every connection, releases every held call and returns when all
// goroutines of the cluster have ended. A hook that waits for something other
// than Hold or the context of its Call delays it. A hook must not call it.
func (c *Cluster) Close() {
	for _, m := range c.members {
		m.Stop()
	}
	for _, m := range c.members {
		m.server.Stop()
	}
	c.background.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store.StopLeases()
}

// Members returns the members that Start created, in order.
func (c *Cluster) Members() []*Member { return slices.Clone(c.members) }

// Member returns member i, counted from 0.
func (c *Cluster) Member(i int) *Member { return c.members[i] }

// Endpoints returns the endpoints of all members, for clientv3.Config.Endpoints.
func (c *Cluster) Endpoints() []string {
	endpoints := make([]string, len(c.members))
	for i, m := range c.members {
		endpoints[i] = m.Endpoint()
	}
	return endpoints
}

// DialOptions returns the options that route connections to the members by their
// address, for clientv3.Config.DialOptions. They include no transport credentials.
func (c *Cluster) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithContextDialer(c.DialContext)}
}

// OnDial sets a function that is called for each connection attempt. It may block
// until its context ends, and it may return an error to fail the attempt. nil
// removes it.
func (c *Cluster) OnDial(hook func(ctx context.Context, m *Member) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onDial = hook
}

func (c *Cluster) memberAt(address string) *Member {
	for _, m := range c.members {
		if m.addr == address {
			return m
		}
	}
	return nil
}

// Get returns the current value of a key, nil if it does not exist.
func (c *Cluster) Get(key string) *mvccpb.KeyValue {
	return locked(c, func() *mvccpb.KeyValue { return c.store.Get(key) })
}

// Put writes a key without a call, and returns its revision. The key must not be
// empty.
func (c *Cluster) Put(key, value string) (int64, error) {
	req := &pb.PutRequest{Key: []byte(key), Value: []byte(value)}
	if err := store.Check(req); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	resp, err := c.store.Put(req)
	if err != nil {
		return 0, err
	}
	return resp.Header.Revision, nil
}

// Compact discards the history before a revision, without a call. It fails if the
// revision is already compacted (rpctypes.ErrGRPCCompacted) or in the future
// (rpctypes.ErrGRPCFutureRev).
func (c *Cluster) Compact(rev int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.store.Compact(&pb.CompactionRequest{Revision: rev})
	return err
}

// PutCount returns how often a key was put by executed calls and by Put. Unlike the
// key's version, a deletion does not reset it.
func (c *Cluster) PutCount(key string) int {
	return locked(c, func() int { return c.store.PutCount(key) })
}

// Revision returns the revision of the store.
func (c *Cluster) Revision() int64 { return locked(c, c.store.Revision) }

// ExpireLease expires a lease and deletes its keys. The error is
// rpctypes.ErrGRPCLeaseNotFound if there is no such lease.
func (c *Cluster) ExpireLease(id int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.store.LeaseRevoke(&pb.LeaseRevokeRequest{ID: id})
	return err
}

// EnableLeaseExpiry makes leases expire from now on, each unless it is renewed within its TTL, which begins now.
// In a bubble of testing/synctest the time is virtual. Without a leader no lease expires, and the next leader
// renews all of them, as in etcd.
func (c *Cluster) EnableLeaseExpiry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leasesExpire = true
	c.runLeasesLocked()
}

// runLeasesLocked starts or stops the clock of leases after a change of leaders.
func (c *Cluster) runLeasesLocked() {
	switch {
	case !c.leasesExpire:
	case c.leader != nil:
		c.store.RunLeases(&c.mu)
	default:
		c.store.StopLeases()
	}
}

// InvalidateTokens invalidates all authentication tokens, like their expiry or a
// restart of the cluster: calls with one fail with
// rpctypes.ErrGRPCInvalidAuthToken.
func (c *Cluster) InvalidateTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.auth.InvalidateTokens()
}

// SetLeader makes m the leader of the next term, or removes the leader if m is nil.
// Without one, calls and streams with the metadata "hasleader" end with
// rpctypes.ErrGRPCNoLeader, and so do keepalive streams that renew a lease and calls
// of LeaseTimeToLive. Other calls that need a quorum fail with
// rpctypes.ErrGRPCTimeout. A real server first waits for a leader; a fake does not.
func (c *Cluster) SetLeader(m *Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(m)
	c.runLeasesLocked()
}

// Leader returns the leader; nil if there is none.
func (c *Cluster) Leader() *Member { return locked(c, func() *Member { return c.leader }) }

// locked returns what value returns under the cluster's lock.
func locked[T any](c *Cluster, value func() T) T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return value()
}

// leadership is which member leads. Cluster.mu guards it.
type leadership struct {
	leader *Member // nil if there is none
	term   uint64
	lost   chan struct{} // closed when the leader is lost, replaced by the next leader
}

// firstTerm is the raft term of a new cluster: the first election of a real
// one is usually won in term 2.
const firstTerm = 2

func (l *leadership) set(m *Member) {
	switch {
	case m == nil && l.leader != nil:
		close(l.lost)
	case m != nil && l.leader == nil:
		l.lost = make(chan struct{})
	}
	l.leader = m
	l.term++
}

// leaderLost returns a channel that is closed when the leader is lost, nil for a
// stream that does not require a leader.
func (c *Call) leaderLost() <-chan struct{} {
	if !c.requiresLeader() {
		return nil
	}
	return locked(c.cluster, func() <-chan struct{} { return c.cluster.lost })
}

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
	m.listener = &listener{addr: addr(m.addr), conns: make(chan net.Conn), closed: make(chan struct{})}
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
