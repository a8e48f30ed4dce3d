// Package official connects the lab's load through the official client,
// go.etcd.io/etcd/client/v3, so that it can be measured beside Quorate.
//
// What a program asks of its client is asked in the same words as of Quorate: the
// same requests, deadlines, and times to live.
package official

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/lab/load"
	"github.com/quorate/quorate/lab/scenario"
)

const (
	// KeepAliveTime is the time between pings of [Tuned], the shortest that gRPC's clients
	// accept.
	KeepAliveTime = 10 * time.Second
	// KeepAliveTimeout is how long it waits for the answer to one, a common choice.
	KeepAliveTimeout = 3 * time.Second

	// dialTimeout is that of [scenario.Quorate]. It bounds the wait for a connection.
	dialTimeout = 5 * time.Second
)

// AsItComes connects through the official client with nothing set but endpoints and a
// dial timeout.
func AsItComes(to load.Target) (scenario.Connection, error) {
	return connect(clientv3.Config{Endpoints: to.Endpoints, TLS: to.TLS}, false)
}

// Tuned connects through the official client as its users tune it who have met these
// faults before: gRPC keepalive, with [KeepAliveTime] and [KeepAliveTimeout], and every
// watch with WithRequireLeader.
func Tuned(to load.Target) (scenario.Connection, error) {
	return connect(clientv3.Config{
		Endpoints: to.Endpoints, TLS: to.TLS, DialKeepAliveTime: KeepAliveTime, DialKeepAliveTimeout: KeepAliveTimeout,
	}, true)
}

func connect(cfg clientv3.Config, requireLeader bool) (scenario.Connection, error) {
	cfg.DialTimeout, cfg.Logger = dialTimeout, zap.NewNop()
	client, err := clientv3.New(cfg)
	if err != nil {
		return scenario.Connection{}, err
	}
	return scenario.Connection{
		Services:      load.Services{Store: store{client}, Watcher: watcher{client, requireLeader}, Lessor: lessor{client}},
		RequireLeader: requireLeader,
		Close:         client.Close,
	}, nil
}
