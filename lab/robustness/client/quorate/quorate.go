// Package quorate implements package client with Quorate's client. The file client.go of package official is generated from
// that of this package.
package quorate

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/lab/robustness/client"
)

// Connect connects through Quorate's client, with its default policies: the figures
// of a run are those of a program that sets nothing but endpoints.
func Connect(to client.Target) (client.Connection, error) {
	return connect(clientv3.Config{Endpoints: to.Endpoints, TLS: to.TLS})
}

// Idempotent connects as [Connect] does, with idempotent writes.
func Idempotent(to client.Target) (client.Connection, error) {
	c, err := Dial(clientv3.Config{Endpoints: to.Endpoints, TLS: to.TLS})
	if err != nil {
		return client.Connection{}, err
	}
	closeAll, err := WriteOnce(c)
	if err != nil {
		return client.Connection{}, err
	}
	conn := connection(c)
	conn.Close = closeAll
	return conn, nil
}

// WriteOnce makes the writes of a client idempotent. The client is to be closed by closeAll, and is closed if there is an error.
func WriteOnce(c *clientv3.Client) (closeAll func() error, err error) {
	writer, err := idempotent.New(context.Background(), c, idempotent.Config{})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.KV = writer
	return func() error { return errors.Join(writer.Close(), c.Close()) }, nil
}

// ownerOf returns the comparison that the client gives to leaders.
func ownerOf(e *concurrency.Election) clientv3.Cmp { return e.IsOwner() }

// claims returns a context for keeping a lease alive, and the claims of the client about the lease: until when it lives after a
// renewal, and why there are no more renewals.
func claims(ctx context.Context) (keeping context.Context, until func(*clientv3.LeaseKeepAliveResponse) time.Time, reason func() error) {
	monitor := &clientv3.LeaseMonitor{}
	until = func(*clientv3.LeaseKeepAliveResponse) time.Time { return monitor.Deadline() }
	return clientv3.WithLeaseMonitor(ctx, monitor), until, monitor.Err
}
