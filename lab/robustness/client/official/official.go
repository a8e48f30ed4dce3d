// Package official implements what the lab asks of a client with the official one, go.etcd.io/etcd/client/v3, so that it can be
// measured beside Quorate. Its files but this one are generated from package quorate: a program asks both clients in the same words.
package official

import (
	"context"
	"iter"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/quorate/quorate/lab/robustness/client"
)

const (
	// KeepAliveTime is the time between pings of [Tuned], the shortest that gRPC's clients
	// accept.
	KeepAliveTime = 10 * time.Second
	// KeepAliveTimeout is how long it waits for the answer to one, a common choice.
	KeepAliveTimeout = 3 * time.Second

	dialTimeout = 5 * time.Second
)

// AsItComes connects through the official client with nothing set but endpoints and a
// dial timeout.
func AsItComes(to client.Target) (client.Connection, error) {
	return connect(clientv3.Config{Endpoints: to.Endpoints, TLS: to.TLS}, false)
}

// Tuned connects through the official client as its users tune it who have met these
// faults before: gRPC keepalive, with [KeepAliveTime] and [KeepAliveTimeout], and every
// watch with WithRequireLeader.
func Tuned(to client.Target) (client.Connection, error) {
	return connect(clientv3.Config{
		Endpoints: to.Endpoints, TLS: to.TLS, DialKeepAliveTime: KeepAliveTime, DialKeepAliveTimeout: KeepAliveTimeout,
	}, true)
}

func connect(cfg clientv3.Config, requireLeader bool) (client.Connection, error) {
	c, err := dial(cfg)
	if err != nil {
		return client.Connection{}, err
	}
	return client.Connection{
		KV: NewKV(c), Store: NewStore(c), Watcher: NewWatcher(c), Lessor: NewLessor(c), RequireLeader: requireLeader, Close: c.Close,
	}, nil
}

// Locker connects one contender through the official client with nothing set but endpoints and a dial timeout.
func Locker(endpoints []string) (client.Locker, error) {
	c, err := dial(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		return nil, err
	}
	return LockClient{c}, nil
}

func dial(cfg clientv3.Config) (*clientv3.Client, error) {
	cfg.DialTimeout, cfg.Logger = dialTimeout, zap.NewNop()
	return clientv3.New(cfg)
}

// ownerOf returns the comparison that leaders make; the client gives them none.
func ownerOf(e *concurrency.Election) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(e.Key()), "=", e.Rev())
}

// KeepAlive claims what the official client itself counts with: that the lease lives
// for its TTL from when the answer arrived. The client says nothing of why it ends a
// keepalive.
func (l lessor) KeepAlive(ctx context.Context, id int64) iter.Seq2[time.Time, error] {
	renewals, err := l.leases.KeepAlive(ctx, clientv3.LeaseID(id))
	return func(yield func(time.Time, error) bool) {
		if err != nil {
			yield(time.Time{}, err)
			return
		}
		for resp := range renewals {
			if !yield(time.Now().Add(time.Duration(resp.TTL)*time.Second), nil) {
				return
			}
		}
	}
}
