package scenario

import (
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
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
	client, err := clientv3.New(clientv3.Config{
		Endpoints: to.Endpoints, TLS: to.TLS, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		return Connection{}, err
	}
	services := load.Services{Store: load.NewStore(client), Watcher: load.NewWatcher(client), Lessor: load.NewLessor(client)}
	return Connection{Services: services, Close: client.Close}, nil
}
