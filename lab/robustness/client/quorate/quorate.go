// Package quorate implements what the lab asks of a client with Quorate's. Its files but this one are also the source of
// package official.
package quorate

import (
	"context"
	"errors"
	"iter"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/lab/robustness/client"
)

const dialTimeout = 5 * time.Second

// Connect connects through Quorate's client, with its default policies: the
// numbers of a run are what a program gets that sets nothing but endpoints.
func Connect(to client.Target) (client.Connection, error) {
	c, err := Dial(clientv3.Config{Endpoints: to.Endpoints, TLS: to.TLS})
	if err != nil {
		return client.Connection{}, err
	}
	return connection(c, c.Close), nil
}

// Idempotent connects as [Connect] does, with idempotent writes.
func Idempotent(to client.Target) (client.Connection, error) {
	c, err := Dial(clientv3.Config{Endpoints: to.Endpoints, TLS: to.TLS})
	if err != nil {
		return client.Connection{}, err
	}
	writer, err := idempotent.New(context.Background(), c, idempotent.Config{})
	if err != nil {
		return client.Connection{}, errors.Join(err, c.Close())
	}
	c.KV = writer
	return connection(c, func() error { return errors.Join(writer.Close(), c.Close()) }), nil
}

// Locker connects one contender through Quorate's client, with its default policies.
func Locker(endpoints []string) (client.Locker, error) {
	c, err := Dial(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		return nil, err
	}
	return LockClient{c}, nil
}

// Dial connects a client that logs nothing.
func Dial(cfg clientv3.Config) (*clientv3.Client, error) {
	cfg.DialTimeout, cfg.Logger = dialTimeout, zap.NewNop()
	return clientv3.New(cfg)
}

func connection(c *clientv3.Client, end func() error) client.Connection {
	return client.Connection{KV: NewKV(c), Store: NewStore(c), Watcher: NewWatcher(c), Lessor: NewLessor(c), Close: end}
}

// ownerOf returns the comparison that the client gives to leaders.
func ownerOf(e *concurrency.Election) clientv3.Cmp { return e.IsOwner() }

func (l lessor) KeepAlive(ctx context.Context, id int64) iter.Seq2[time.Time, error] {
	monitor := &clientv3.LeaseMonitor{}
	renewals, err := l.leases.KeepAlive(clientv3.WithLeaseMonitor(ctx, monitor), clientv3.LeaseID(id))
	return func(yield func(time.Time, error) bool) {
		if err != nil {
			yield(time.Time{}, err)
			return
		}
		for range renewals {
			if !yield(monitor.Deadline(), nil) {
				return
			}
		}
		if reason := monitor.Err(); reason != nil {
			yield(time.Time{}, reason)
		}
	}
}
