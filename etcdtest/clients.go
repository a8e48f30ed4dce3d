package etcdtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
)

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
	if _, err := client.AuthEnable(ctx); err != nil {
		return fmt.Errorf("etcdtest: enable authentication: %w", err)
	}
	return nil
}

func addUser(ctx context.Context, client *clientv3.Client, name, password string) error {
	_, err := client.UserAdd(ctx, name, password)
	if err == nil && name != root {
		if _, err = client.RoleAdd(ctx, name); err == nil {
			// All keys: from the first one on.
			_, err = client.RoleGrantPermission(ctx, name, "\x00", "\x00", clientv3.PermissionType(clientv3.PermReadWrite))
		}
	}
	if err == nil {
		_, err = client.UserGrantRole(ctx, name, name)
	}
	return err
}
