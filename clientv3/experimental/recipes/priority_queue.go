package recipe

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/clientv3"
)

// PriorityQueue is a queue for any number of readers and writers whose elements have a
// priority. Its elements are the keys below key and a slash, so no queue's key may be
// followed by a slash in that of another. It is safe for concurrent use.
type PriorityQueue struct {
	client *clientv3.Client
	key    string
}

// NewPriorityQueue returns the queue whose keys begin with key and a slash. For each
// priority there is one key more, "__" in front of what its elements begin with.
func NewPriorityQueue(client *clientv3.Client, key string) *PriorityQueue {
	return &PriorityQueue{client, key}
}

// Enqueue puts an element at the end of those with the priority pr, at most once; 0 is
// served first.
func (q *PriorityQueue) Enqueue(val string, pr uint16) error {
	return createSequential(q.client, fmt.Sprintf("%s/%05d", q.key, pr), val)
}

// Dequeue takes an element with the lowest number for a priority, of these the one that
// has been in the queue longest, and waits for one if there is none. Each element is taken
// by one call. With an error that leaves the outcome unknown an element may have been taken
// that nobody gets.
func (q *PriorityQueue) Dequeue() (string, error) {
	return dequeue(q.client, q.key+"/", clientv3.WithFirstKey())
}

// createSequential puts a key below a prefix that sorts after those that there are. A
// number could be given out twice if its key were taken between the read and the write;
// the key in front of whose name is "__" is put with each one, and tells that somebody
// was faster.
func createSequential(c *clientv3.Client, prefix, val string) error {
	ctx, guard := c.Ctx(), "__"+prefix
	for {
		resp, err := c.Get(ctx, prefix+"/", append(clientv3.WithLastKey(), clientv3.WithKeysOnly())...)
		if err != nil {
			return err
		}
		var number uint64
		if len(resp.Kvs) > 0 {
			if number, err = sequenceNumber(string(resp.Kvs[0].Key), prefix); err != nil {
				return err
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

func sequenceNumber(key, prefix string) (uint64, error) {
	number, err := strconv.ParseUint(strings.TrimPrefix(key, prefix+"/"), 10, 62)
	if err != nil {
		return 0, fmt.Errorf("recipe: the key %q is not one of a queue: what follows %q has to be a number", key, prefix+"/")
	}
	return number, nil
}
