// Package official implements package client with the official client, go.etcd.io/etcd/client/v3, so that it can be compared with
// Quorate. Its file client.go is generated from that of package quorate, so that both clients are used in the same way.
package official

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/quorate/quorate/lab/robustness/client"
)

const (
	// KeepAliveTime is the time between pings of [Tuned], the shortest that gRPC's clients
	// accept.
	KeepAliveTime = 10 * time.Second
	// KeepAliveTimeout is how long it waits for the answer to one, a common choice.
	KeepAliveTimeout = 3 * time.Second
)

// AsItComes connects through the official client with nothing set but endpoints and a
// dial timeout.
func AsItComes(to client.Target) (client.Connection, error) {
	return connect(clientv3.Config{Endpoints: to.Endpoints, TLS: to.TLS})
}

// Tuned connects through the official client, tuned as by users who know these faults:
// gRPC keepalive, with [KeepAliveTime] and [KeepAliveTimeout], and every watch with
// WithRequireLeader.
func Tuned(to client.Target) (client.Connection, error) {
	conn, err := connect(clientv3.Config{
		Endpoints: to.Endpoints, TLS: to.TLS, DialKeepAliveTime: KeepAliveTime, DialKeepAliveTimeout: KeepAliveTimeout,
	})
	conn.RequireLeader = true
	return conn, err
}

// ownerOf returns the comparison that leaders make; the client gives them none.
func ownerOf(e *concurrency.Election) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(e.Key()), "=", e.Rev())
}

// claims has the assumption of the official client: a lease lives for its TTL from
// the arrival of the answer. The client does not say why it ends a keepalive.
func claims(ctx context.Context) (keeping context.Context, until func(*clientv3.LeaseKeepAliveResponse) time.Time, reason func() error) {
	until = func(renewal *clientv3.LeaseKeepAliveResponse) time.Time {
		return time.Now().Add(time.Duration(renewal.TTL) * time.Second)
	}
	return ctx, until, func() error { return nil }
}
