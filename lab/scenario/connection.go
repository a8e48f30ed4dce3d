package scenario

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/lab/load"
)

// Connection is how the load reaches the cluster.
type Connection struct {
	// Services that the load uses. Without a Watcher or a Lessor there are no
	// watches or leases.
	load.Services
	// RequireLeader says that every watch ends when its member has no leader,
	// which the checks then allow.
	RequireLeader bool
	// Close ends the connection.
	Close func() error
}

// Quorate connects through Quorate's client, with its default policies: the
// numbers of a run are what a program gets that sets nothing but endpoints.
func Quorate(to load.Target) (Connection, error) {
	client, err := newClient(to)
	if err != nil {
		return Connection{}, err
	}
	return connection(client, client.Close), nil
}

// Idempotent connects as [Quorate] does, with idempotent writes.
func Idempotent(to load.Target) (Connection, error) {
	client, err := newClient(to)
	if err != nil {
		return Connection{}, err
	}
	writer, err := idempotent.New(context.Background(), client, idempotent.Config{})
	if err != nil {
		return Connection{}, errors.Join(err, client.Close())
	}
	client.KV = writer
	return connection(client, func() error { return errors.Join(writer.Close(), client.Close()) }), nil
}

func newClient(to load.Target) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: to.Endpoints, TLS: to.TLS, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
}

func connection(client *clientv3.Client, end func() error) Connection {
	services := load.Services{Store: load.NewStore(client), Watcher: load.NewWatcher(client), Lessor: load.NewLessor(client)}
	return Connection{Services: services, Close: end}
}
