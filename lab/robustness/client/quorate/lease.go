package quorate

import (
	"context"
	"iter"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/client"
)

// NewLessor returns a Lessor that keeps its leases, and writes the keys attached to
// them, through a client.
func NewLessor(c *clientv3.Client) client.Lessor { return lessor{c} }

type lessor struct{ c *clientv3.Client }

func (l lessor) Grant(ctx context.Context, ttl time.Duration) (id int64, granted time.Duration, err error) {
	resp, err := l.c.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, 0, err
	}
	return int64(resp.ID), time.Duration(resp.TTL) * time.Second, nil
}

func (l lessor) Attach(ctx context.Context, id int64, key, value string) error {
	_, err := l.c.Put(ctx, key, value, clientv3.WithLease(clientv3.LeaseID(id)))
	return err
}

func (l lessor) KeepAlive(ctx context.Context, id int64) iter.Seq2[time.Time, error] {
	ctx, until, reason := claims(ctx)
	renewals, err := l.c.KeepAlive(ctx, clientv3.LeaseID(id))
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
