// Package etcdtest gives a test an etcd in memory and a client of it, in one line:
//
//	etcd := etcdtest.Fake(t)
//	repo := NewRepository(etcd.Client)
//
// It opens no port, and starts in milliseconds. In a bubble of testing/synctest its time is virtual: leases
// expire, sessions end and calls time out without a wait. Faults are one call each: Freeze, Cut, Compact,
// LoseAnswer. The fake answers as etcd 3.7 does; [Cluster.Fake] has hooks for everything else.
//
// Package lab/etcdtest, in the module lab, has the same methods on real members: a test moves there by its
// import and by Start in place of Fake. docs/testing.md compares them.
package etcdtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/retry"
)

// Config describes a cluster. Its zero value is one member without users.
type Config struct {
	// Members is the number of members, 1 to 1000. Default 1.
	Members int
	// Users has passwords by name. If there are any, the cluster requires authentication; see NewClients.
	Users map[string]string
	// Client configures Cluster.Client: its endpoints and how it connects are those of the cluster, and
	// it is the user root if there are Users and it names none. It logs nothing, unless it has a logger.
	Client clientv3.Config
}

// Cluster is a cluster in memory with a client.
type Cluster struct {
	*Clients
	// Fake scripts single calls and connections, and reads and writes the store without a client.
	Fake *fakeetcd.Cluster

	mu     sync.Mutex
	frozen map[int]bool
}

// Fake returns a cluster, by default of one member, that is closed at the end of the test. The test fails at
// once if there is more than one Config, or it is not valid.
func Fake(t testing.TB, cfg ...Config) *Cluster {
	t.Helper()
	if len(cfg) > 1 {
		t.Fatalf("etcdtest: Fake has %d Configs: give it one or none", len(cfg))
	}
	c, err := New(append(cfg, Config{})[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// New is Fake where there is no test, as in an Example or TestMain. The caller closes the cluster.
func New(cfg Config) (*Cluster, error) {
	fake, err := fakeetcd.Start(cmp.Or(cfg.Members, 1))
	if err != nil {
		return nil, err
	}
	fake.EnableLeaseExpiry()
	c := &Cluster{Fake: fake, frozen: make(map[int]bool)}
	c.Clients, err = NewClients(clientv3.Config{Endpoints: fake.Endpoints(), DialOptions: fake.DialOptions()}, cfg.Users, cfg.Client)
	if err != nil {
		fake.Close()
		return nil, err
	}
	return c, nil
}

// Close closes Client and the cluster.
func (c *Cluster) Close() {
	_ = c.Client.Close()
	c.Fake.Close()
}

// Freeze makes a member, counted from 0, answer nothing, while its connections stay open, as a host that
// hangs. end makes it go on. If it is the leader, another member leads from then on; while only a
// minority is left, there is no leader.
func (c *Cluster) Freeze(member int) (end func()) {
	time.Sleep(time.Nanosecond) // in virtual time, no call before the fault begins when one after it does
	m := c.Fake.Member(member)
	m.Freeze()
	c.elect(member, true)
	return func() {
		m.Continue()
		c.elect(member, false)
	}
}

// elect gives the members that are not frozen a leader, if they can have one.
func (c *Cluster) elect(member int, frozen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen[member] = frozen
	var awake []*fakeetcd.Member
	for i, m := range c.Fake.Members() {
		if !c.frozen[i] {
			awake = append(awake, m)
		}
	}
	leader := c.Fake.Leader()
	switch {
	case len(awake) == 0:
	case len(awake) <= len(c.Fake.Members())/2:
		if leader != nil {
			c.Fake.SetLeader(nil)
		}
	case !slices.Contains(awake, leader):
		c.Fake.SetLeader(awake[0])
	}
}

// Cut breaks the connections of clients to a member, counted from 0, and refuses new ones, until end. The
// member goes on.
func (c *Cluster) Cut(member int) (end func()) {
	m := c.Fake.Member(member)
	m.Stop()
	return m.Start
}

// Compact discards the history before the current revision.
func (c *Cluster) Compact() {
	// It fails only if that is done already.
	_ = c.Fake.Compact(c.Fake.Revision())
}

// LoseAnswer lets the next call of a method, such as "Put", "Txn" or "Range", be executed, and breaks its
// connection in place of the answer. It is for methods with one answer.
func (c *Cluster) LoseAnswer(method string) {
	c.Fake.Once(method, func(call *fakeetcd.Call) {
		_, _ = call.Execute() // what it returns is lost, an error too
		call.BreakConn()
	})
}

// Clients is what clusters of this package and of lab/etcdtest share: their clients.
type Clients struct {
	// Client is a client of all members. It is closed with the cluster.
	Client *clientv3.Client

	cluster clientv3.Config
	users   map[string]string
}

// root is the user who may do everything, and its password if the test gives none.
const root = "root"

// NewClients adds the users, makes the cluster require authentication if there are any, and returns its clients,
// Client with the configuration first. cluster has what every client of the cluster needs: Endpoints, TLS,
// DialOptions. The user root, with the password "root" if users has none, may do everything; the others have a
// role of their own name that may read and write all keys.
func NewClients(cluster clientv3.Config, users map[string]string, first clientv3.Config) (*Clients, error) {
	c := &Clients{cluster: cluster}
	if len(users) > 0 {
		setup, err := clientv3.New(c.ClientConfig(clientv3.Config{}))
		if err != nil {
			return nil, err
		}
		c.users = map[string]string{root: root}
		maps.Copy(c.users, users)
		err = enableAuth(context.Background(), setup, c.users)
		if _ = setup.Close(); err != nil {
			return nil, err
		}
	}
	var err error
	c.Client, err = clientv3.New(c.ClientConfig(first))
	return c, err
}

// ClientConfig completes the configuration of another client: with the members as endpoints if it has none, how
// to connect to them, the user root if the cluster has users and it names none, and no log if it has none.
func (c *Clients) ClientConfig(cfg clientv3.Config) clientv3.Config {
	if len(cfg.Endpoints) == 0 {
		cfg.Endpoints = c.cluster.Endpoints
	}
	if cfg.TLS == nil {
		cfg.TLS = c.cluster.TLS
	}
	cfg.DialOptions = slices.Concat(c.cluster.DialOptions, cfg.DialOptions)
	if cfg.Logger == nil && cfg.LogConfig == nil && cfg.Slog == nil {
		cfg.Logger = zap.NewNop()
	}
	if c.users != nil && cfg.Username == "" && cfg.Token == "" && cfg.TokenSource == nil {
		cfg.Username, cfg.Password = root, c.users[root]
	}
	return cfg
}

// Connect returns another client, with ClientConfig, that is closed at the end of the test.
func (c *Clients) Connect(t testing.TB, cfg clientv3.Config) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(c.ClientConfig(cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func enableAuth(ctx context.Context, client *clientv3.Client, users map[string]string) error {
	for name, password := range users {
		if err := addUser(ctx, client, name, password); err != nil {
			return fmt.Errorf("etcdtest: add the user %q: %w", name, err)
		}
	}
	// Without a token, as a client has none before, etcd refuses the second one.
	err := untilKnown(rpctypes.ErrUserEmpty, func() error { _, err := client.AuthEnable(ctx); return err })
	if err != nil {
		return fmt.Errorf("etcdtest: enable authentication: %w", err)
	}
	return nil
}

func addUser(ctx context.Context, client *clientv3.Client, name, password string) error {
	err := untilKnown(rpctypes.ErrUserAlreadyExist, func() error { _, err := client.UserAdd(ctx, name, password); return err })
	if err == nil && name != root {
		err = untilKnown(rpctypes.ErrRoleAlreadyExist, func() error { _, err := client.RoleAdd(ctx, name); return err })
		if err == nil {
			// All keys: from the first one on.
			err = untilKnown(nil, func() error {
				_, err := client.RoleGrantPermission(ctx, name, "\x00", "\x00", clientv3.PermissionType(clientv3.PermReadWrite))
				return err
			})
		}
	}
	if err == nil {
		err = untilKnown(nil, func() error { _, err := client.UserGrantRole(ctx, name, name); return err })
	}
	return err
}

// untilKnown makes a change, and again while its outcome is unknown, as on a busy machine that elects leaders: then done is the
// error of a change that was made.
func untilKnown(done error, change func() error) error {
	err := change()
	for range 10 {
		if retry.OutcomeOf(err) != retry.OutcomeUnknown {
			return err
		}
		if err = change(); done != nil && errors.Is(err, done) {
			return nil
		}
	}
	return err
}
