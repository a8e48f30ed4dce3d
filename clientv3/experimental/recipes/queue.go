package recipe

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

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

// PriorityQueue is a queue for any number of readers and writers whose elements have a
// priority. Its elements are the keys below key and a slash, so no queue's key may be
// below another's. It is safe for concurrent use.
type PriorityQueue struct {
	client *clientv3.Client
	key    string
}

// NewPriorityQueue returns the queue whose keys begin with key and a slash. Each
// priority has one more key: "__" followed by the prefix of its elements.
func NewPriorityQueue(client *clientv3.Client, key string) *PriorityQueue {
	return &PriorityQueue{client, key}
}

// Enqueue puts an element after those with the same priority pr, at most once;
// priority 0 is served first.
func (q *PriorityQueue) Enqueue(val string, pr uint16) error {
	return createSequential(q.client, fmt.Sprintf("%s/%05d", q.key, pr), val)
}

// Dequeue removes and returns an element with the lowest priority number, the oldest of
// these; it waits if the queue is empty. Each element is returned by one call at most.
// After an error with unknown outcome an element may have been removed without being
// returned.
func (q *PriorityQueue) Dequeue() (string, error) {
	return dequeue(q.client, q.key+"/", clientv3.WithFirstKey())
}

// createSequential puts a key below a prefix that sorts after the existing ones. A
// number could be used twice if its key were removed between the read and the write; so
// each put also writes the key with "__" in front, and a change of that key shows that
// another client was faster.
func createSequential(c *clientv3.Client, prefix, val string) error {
	ctx, guard := c.Ctx(), "__"+prefix
	for {
		resp, err := c.Get(ctx, prefix+"/", append(clientv3.WithLastKey(), clientv3.WithKeysOnly())...)
		if err != nil {
			return err
		}
		var number uint64
		if len(resp.Kvs) > 0 {
			key := string(resp.Kvs[0].Key)
			if number, err = strconv.ParseUint(strings.TrimPrefix(key, prefix+"/"), 10, 62); err != nil {
				return fmt.Errorf("recipe: the key %q is not one of a queue: what follows %q has to be a number", key, prefix+"/")
			}
			number++
		}
		created, err := commitOnce(ctx, func() clientv3.Txn {
			return c.Txn(ctx).
				If(clientv3.Compare(clientv3.ModRevision(guard), "<", resp.Header.Revision+1)).
				Then(clientv3.OpPut(guard, ""), clientv3.OpPut(fmt.Sprintf("%s/%016d", prefix, number), val))
		})
		if err != nil || created {
			return err
		}
	}
}
