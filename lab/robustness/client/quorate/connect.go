package quorate

import (
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/client"
)

const dialTimeout = 5 * time.Second

// Client is a client as the lab uses it: a [client.Watcher], [client.Lessor] and [client.Locker].
type Client struct{ *clientv3.Client }

// Dial connects a client that logs nothing.
func Dial(cfg clientv3.Config) (*clientv3.Client, error) {
	cfg.DialTimeout, cfg.Logger = dialTimeout, zap.NewNop()
	return clientv3.New(cfg)
}

func connect(cfg clientv3.Config) (client.Connection, error) {
	c, err := Dial(cfg)
	return connection(c), err
}

func connection(c *clientv3.Client) client.Connection {
	return client.Connection{KV: NewKV(c), Watcher: Client{c}, Lessor: Client{c}, Close: c.Close}
}

// Locker connects one contender through a client with nothing set but endpoints and a dial timeout.
func Locker(endpoints []string) (client.Locker, error) {
	c, err := Dial(clientv3.Config{Endpoints: endpoints})
	return Client{c}, err
}
