// Package etcdtest gives a test real etcd members and a client of them, in one line:
//
//	etcd := etcdtest.Start(t, etcdtest.Config{Members: 3})
//	repo := NewRepository(etcd.Client)
//
// The members are processes, which are the test program started again: they need no executable of etcd and no
// TestMain. They start in about a second and end with the test. A test with the race detector starts sooner with
// the variable QUORATE_LAB, see package lab. Faults are one call each, and are the same as those of package
// etcdtest of the root module, whose members are in memory: Freeze, Cut, Compact, LoseAnswer.
package etcdtest

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/etcdtest"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
)

// faultTimeout bounds what a fault waits for.
const faultTimeout = time.Minute

// A program that is started as a member does not return from this.
func init() { lab.Main() }

// Config describes a cluster. Its zero value is one member without TLS and users.
type Config struct {
	// Members is the number of members, 1 to 9. Default 1.
	Members int
	// TLS makes members serve over TLS, with certificates of a CA made for this cluster.
	TLS bool
	// Users has passwords by name. If there are any, the cluster requires authentication; see NewClients
	// of package etcdtest in the root module.
	Users map[string]string
	// Client configures Cluster.Client: its endpoints and TLS are those of the cluster, and it is the user
	// root if there are Users and it names none. It logs nothing, unless it has a logger.
	Client clientv3.Config
}

// Cluster is a cluster of real members with a client.
type Cluster struct {
	*etcdtest.Clients
	// Lab has all other faults: links that are slow or lose bytes, members that are killed and restarted.
	Lab *lab.Cluster

	t    testing.TB
	mu   sync.Mutex
	lost []string // methods whose next answer is lost
}

// Start starts a cluster, by default of one member, and returns when it serves. It is closed at the end of the
// test. The test fails at once if the cluster does not start within five minutes.
func Start(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	cluster, err := lab.Start(t.Context(), lab.Config{
		Members: cmp.Or(cfg.Members, 1), TLS: cfg.TLS, Dir: t.TempDir(),
		Args: []string{"--bcrypt-cost=4"}, // the lowest: a busy machine takes seconds for a password with etcd's
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Lab: cluster, t: t}
	t.Cleanup(func() { c.check(cluster.Close()) })
	c.Clients, err = etcdtest.NewClients(clientv3.Config{
		Endpoints: cluster.Endpoints(), TLS: cluster.ClientTLS(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.lose)},
	}, cfg.Users, cfg.Client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Client.Close() })
	admin := c.ClientConfig(clientv3.Config{})
	cluster.SetCredentials(admin.Username, admin.Password)
	return c
}

// Freeze stops the process of a member, counted from 0 (SIGSTOP): its connections stay open and nothing is
// answered, as with a host that hangs. end makes it go on. If it was the leader, the others elect one, provided
// they are a majority.
func (c *Cluster) Freeze(member int) (end func()) {
	c.t.Helper()
	m := c.Lab.Members()[member]
	c.check(m.Freeze())
	return func() { c.check(m.Continue()) }
}

// Cut breaks the connections of clients to a member, counted from 0, and refuses new ones, until end. The
// member goes on.
func (c *Cluster) Cut(member int) (end func()) {
	link := c.Lab.ClientLink(c.Lab.Members()[member])
	link.Cut()
	return link.Heal
}

// Compact discards the history before the current revision.
func (c *Cluster) Compact() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), faultTimeout)
	defer cancel()
	err := c.compact(ctx)
	for status.Code(err) == codes.Unavailable && pause.For(ctx, 20*time.Millisecond) == nil { // an election drops what is under way
		err = c.compact(ctx)
	}
	if !errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) { // it was done already
		c.check(err)
	}
}

func (c *Cluster) compact(ctx context.Context) error {
	leader, err := c.Lab.Leader(ctx)
	if err != nil {
		return err
	}
	kv := pb.NewKVClient(leader.Conn())
	now, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte{0}})
	if err == nil {
		_, err = kv.Compact(ctx, &pb.CompactionRequest{Revision: now.Header.Revision})
	}
	return err
}

// LoseAnswer lets the next call of a method, such as "Put", "Txn" or "Range", by a client with ClientConfig be
// executed, and fails it as if the connection had broken before the answer. It is for methods with one answer.
func (c *Cluster) LoseAnswer(method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = append(c.lost, method)
}

// lose is the interceptor of clients.
func (c *Cluster) lose(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if err == nil && c.takeLost(path.Base(method)) {
		return status.Error(codes.Unavailable, "error reading from server: EOF")
	}
	return err
}

func (c *Cluster) takeLost(method string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.lost, method)
	if i >= 0 {
		c.lost = slices.Delete(c.lost, i, i+1)
	}
	return i >= 0
}

// check fails the test if there is an error. It may be called from any goroutine.
func (c *Cluster) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Error(err)
	}
}
