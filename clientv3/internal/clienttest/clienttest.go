// Package clienttest has what tests of the packages over clientv3 share: clusters in memory, and clients that lose
// their connections.
package clienttest

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// Timeout is far longer than what a test waits for.
const Timeout = 24 * time.Hour

// Bubble runs a test in virtual time, on a cluster whose leases expire by it.
func Bubble(t *testing.T, members int, test func(t *testing.T, cluster *fakeetcd.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster := Start(t, members)
		cluster.EnableLeaseExpiry()
		test(t, cluster)
	})
}

// InBubble runs a test in virtual time, with a cluster and a client of it.
func InBubble(t *testing.T, members int, test func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster, client := StartClient(t, members)
		test(t, cluster, client)
	})
}

// Start returns a cluster that ends with the test. Its leases do not expire.
func Start(t testing.TB, members int) *fakeetcd.Cluster {
	t.Helper()
	cluster, err := fakeetcd.Start(members)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// Connect returns a client of the cluster that ends with the test. It logs nothing, unless cfg has a logger.
func Connect(t testing.TB, cluster *fakeetcd.Cluster, cfg ...clientv3.Config) *clientv3.Client {
	t.Helper()
	c := append(cfg, clientv3.Config{})[0]
	if c.Endpoints == nil {
		c.Endpoints = cluster.Endpoints()
	}
	if c.DialOptions == nil {
		c.DialOptions = cluster.DialOptions()
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// StartClient is Start and Connect.
func StartClient(t testing.TB, members int) (*fakeetcd.Cluster, *clientv3.Client) {
	t.Helper()
	cluster := Start(t, members)
	return cluster, Connect(t, cluster)
}

// Example returns a client of an etcd in memory, for an example, and what ends both. A program passes its endpoints to
// clientv3.New.
func Example(members int) (client *clientv3.Client, stop func()) {
	_, client, stop = ExampleCluster(members)
	return client, stop
}

// ExampleCluster is Example for an example that shows what the cluster receives, or has it fail.
func ExampleCluster(members int) (cluster *fakeetcd.Cluster, client *clientv3.Client, stop func()) {
	cluster = Must(fakeetcd.Start(members))
	client = Must(clientv3.New(clientv3.Config{
		Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(),
	}))
	return cluster, client, func() {
		_ = client.Close()
		cluster.Close()
	}
}

// Put writes a key, and returns the revision.
func Put(t testing.TB, cluster *fakeetcd.Cluster, key, value string) int64 {
	t.Helper()
	rev, err := cluster.Put(key, value)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// Get reads as a program does.
func Get(t testing.TB, kv clientv3.KV, key string, opts ...clientv3.OpOption) *clientv3.GetResponse {
	t.Helper()
	resp, err := kv.Get(Within(t), key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// Keys returns the keys with a prefix, in the order of their creation.
func Keys(t testing.TB, kv clientv3.KV, prefix string) []string {
	t.Helper()
	resp := Get(t, kv, prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	keys := make([]string, len(resp.Kvs))
	for i, kv := range resp.Kvs {
		keys[i] = string(kv.Key)
	}
	return keys
}

// Go runs f in a bubble, and returns the channel of its result when f has returned or waits.
func Go(f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	synctest.Wait()
	return result
}

// Must returns the value of a call that does not fail in any case of the test, and panics with its error.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Within returns a context that ends long after the test should.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Ended returns a context that has ended.
func Ended(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// Next returns the next value, and fails after Timeout of virtual time: while a lease is renewed, a wait is no
// deadlock.
func Next[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(Timeout):
		t.Fatal("nothing happens")
	}
	return v
}

// Process is a client of its own, over connections that can be cut.
type Process struct {
	*clientv3.Client

	cluster *fakeetcd.Cluster
	mu      sync.Mutex
	down    bool
	conns   []net.Conn
}

// NewProcess returns a client that ends with the test. It shares no endpoint states with others.
func NewProcess(t testing.TB, cluster *fakeetcd.Cluster, logger *zap.Logger) *Process {
	t.Helper()
	p := &Process{cluster: cluster}
	p.Client = Connect(t, cluster, clientv3.Config{
		Logger: logger, DisableHealthSharing: true,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(p.dial)},
	})
	return p
}

func (p *Process) dial(ctx context.Context, address string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return nil, syscall.ECONNREFUSED
	}
	conn, err := p.cluster.DialContext(ctx, address)
	if err == nil {
		p.conns = append(p.conns, conn)
	}
	return conn, err
}

// Cut breaks the connections of the process, and refuses new ones until Heal.
func (p *Process) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// Heal ends a Cut.
func (p *Process) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// StartPair returns a cluster of two members over one store, and a client of each. A test can stop the member of one, and
// write through the other.
func StartPair(t testing.TB) (cluster *fakeetcd.Cluster, client, other *clientv3.Client) {
	t.Helper()
	cluster = Start(t, 2)
	connect := func(member int) *clientv3.Client {
		return Connect(t, cluster, clientv3.Config{Endpoints: []string{cluster.Member(member).Endpoint()}})
	}
	return cluster, connect(0), connect(1)
}

// Hold keeps the next call of a method, a watch stream too, on its way until release is called.
func Hold(cluster *fakeetcd.Cluster, method string) (release func()) {
	held := make(chan struct{})
	cluster.Once(method, func(c *fakeetcd.Call) { _ = c.Hold(held) })
	return sync.OnceFunc(func() { close(held) })
}

// RefuseWatches makes the members refuse all watches, for a reason of rpctypes, on the streams that open until the hook is
// removed.
func RefuseWatches(cluster *fakeetcd.Cluster, reason error) *fakeetcd.Hook {
	return cluster.On("Watch", func(c *fakeetcd.Call) {
		for {
			req, err := c.Recv()
			if err != nil {
				return
			}
			if req.(*pb.WatchRequest).GetCreateRequest() == nil {
				continue
			}
			_ = c.Send(&pb.WatchResponse{
				Header: &pb.ResponseHeader{Revision: 1}, WatchId: -1, Created: true, Canceled: true, CancelReason: reason.Error(),
			})
		}
	})
}

// LoseAnswer is a hook that executes a call, and breaks the connection before the answer.
func LoseAnswer(call *fakeetcd.Call) {
	if _, err := call.Execute(); err == nil {
		call.BreakConn()
	}
}
