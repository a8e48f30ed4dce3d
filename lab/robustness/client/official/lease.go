// Code generated from package quorate by its copies' test. DO NOT EDIT.

package official

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/robustness/client"
)

// NewLessor returns a Lessor that keeps its leases, and writes the keys attached to
// them, through a client.
func NewLessor(c *clientv3.Client) client.Lessor { return lessor{c, c} }

type lessor struct {
	leases clientv3.Lease
	kv     clientv3.KV
}

func (l lessor) Grant(ctx context.Context, ttl time.Duration) (id int64, granted time.Duration, err error) {
	resp, err := l.leases.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, 0, err
	}
	return int64(resp.ID), time.Duration(resp.TTL) * time.Second, nil
}

func (l lessor) Attach(ctx context.Context, id int64, key, value string) error {
	_, err := l.kv.Put(ctx, key, value, clientv3.WithLease(clientv3.LeaseID(id)))
	return err
}

func (l lessor) Revoke(ctx context.Context, id int64) error {
	_, err := l.leases.Revoke(ctx, clientv3.LeaseID(id))
	return err
}
