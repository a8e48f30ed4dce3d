package load

import (
	"context"
	"iter"
	"time"

	"github.com/quorate/quorate/clientv3"
)

// NewLessor returns a Lessor that keeps its leases, and writes the keys attached to
// them, through a client.
func NewLessor(client *clientv3.Client) Lessor { return clientLessor{client, client} }

type clientLessor struct {
	leases clientv3.Lease
	kv     clientv3.KV
}

func (l clientLessor) Grant(ctx context.Context, ttl time.Duration) (id int64, granted time.Duration, err error) {
	resp, err := l.leases.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, 0, err
	}
	return int64(resp.ID), time.Duration(resp.TTL) * time.Second, nil
}

func (l clientLessor) Attach(ctx context.Context, id int64, key, value string) error {
	_, err := l.kv.Put(ctx, key, value, clientv3.WithLease(clientv3.LeaseID(id)))
	return err
}

func (l clientLessor) Revoke(ctx context.Context, id int64) error {
	_, err := l.leases.Revoke(ctx, clientv3.LeaseID(id))
	return err
}

func (l clientLessor) KeepAlive(ctx context.Context, id int64) iter.Seq2[time.Time, error] {
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
