package recipe

import (
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
)

// Queue is a queue for any number of readers and writers. Its elements are the keys below
// keyPrefix and a slash, so no queue's prefix may be below another's. It is safe for
// concurrent use.
type Queue struct {
	client *clientv3.Client
	prefix string
}

// NewQueue returns the queue whose keys begin with keyPrefix and a slash.
func NewQueue(client *clientv3.Client, keyPrefix string) *Queue { return &Queue{client, keyPrefix} }

// Enqueue puts an element at the end of the queue, at most once.
func (q *Queue) Enqueue(val string) error {
	for {
		if err := createKey(q.client, uniqueKey(q.prefix), val); !errors.Is(err, ErrKeyExists) {
			return err
		}
	}
}

// Dequeue removes and returns the oldest element; it waits if the queue is empty. Each
// element is returned by one call at most. After an error with unknown outcome an element
// may have been removed without being returned.
func (q *Queue) Dequeue() (string, error) {
	return dequeue(q.client, q.prefix+"/", clientv3.WithFirstRev())
}

// dequeue removes the first key below a prefix, in the order of the options.
func dequeue(c *clientv3.Client, prefix string, first []clientv3.OpOption) (string, error) {
	ctx := c.Ctx()
	for {
		resp, err := c.Get(ctx, prefix, first...)
		if err != nil {
			return "", err
		}
		if len(resp.Kvs) == 0 {
			_, err = waitFirst(ctx, c, prefix, clientv3.WithPrefix(), clientv3.WithRev(resp.Header.Revision+1), clientv3.WithFilterDelete())
			if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
				return "", err
			}
			continue
		}
		kv := resp.Kvs[0]
		isThere := clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)
		taken, err := commitOnce(ctx, func() clientv3.Txn { return c.Txn(ctx).If(isThere).Then(clientv3.OpDelete(string(kv.Key))) })
		if err != nil {
			return "", err
		}
		if taken {
			return string(kv.Value), nil
		}
	}
}
