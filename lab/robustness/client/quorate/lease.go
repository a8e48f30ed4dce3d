package quorate

import (
	"context"
	"iter"
	"time"

	"github.com/quorate/quorate/clientv3"
)

// Grant implements [client.Lessor].
func (c Client) Grant(ctx context.Context, ttl time.Duration) (id int64, granted time.Duration, err error) {
	resp, err := c.Client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, 0, err
	}
	return int64(resp.ID), time.Duration(resp.TTL) * time.Second, nil
}

// Attach implements [client.Lessor].
func (c Client) Attach(ctx context.Context, id int64, key, value string) error {
	_, err := c.Put(ctx, key, value, clientv3.WithLease(clientv3.LeaseID(id)))
	return err
}

// KeepAlive implements [client.Lessor].
func (c Client) KeepAlive(ctx context.Context, id int64) iter.Seq2[time.Time, error] {
	ctx, until, reason := claims(ctx)
	renewals, err := c.Client.KeepAlive(ctx, clientv3.LeaseID(id))
	return func(yield func(time.Time, error) bool) {
		if err != nil {
			yield(time.Time{}, err)
			return
		}
		for renewal := range renewals {
			if !yield(until(renewal), nil) {
				return
			}
		}
		if err := reason(); err != nil {
			yield(time.Time{}, err)
		}
	}
}
