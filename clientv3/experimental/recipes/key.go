package recipe

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
)

// RemoteKV is a key that this package has put. It is not safe for concurrent use.
type RemoteKV struct {
	client *clientv3.Client // nil without a key, or after Delete
	key    string
	rev    int64
	val    string
	lease  clientv3.LeaseID
}

// Key returns the key.
func (rk *RemoteKV) Key() string { return rk.key }

// Revision returns the revision that created the key.
func (rk *RemoteKV) Revision() int64 { return rk.rev }

// Value returns the value that the key was created with.
func (rk *RemoteKV) Value() string { return rk.val }

// Delete deletes the key. After success, further calls do nothing.
func (rk *RemoteKV) Delete() error {
	if rk.deleted() {
		return nil
	}
	return rk.delete(rk.client.Ctx())
}

func (rk *RemoteKV) delete(ctx context.Context) error {
	if rk.deleted() {
		return nil
	}
	if _, err := rk.client.Delete(ctx, rk.key); err != nil {
		return err
	}
	rk.client = nil
	return nil
}

func (rk *RemoteKV) deleted() bool { return rk.client == nil }

// Put replaces the value of the key and keeps its lease. After Delete it fails. A key
// that another client has deleted is created again.
func (rk *RemoteKV) Put(val string) error {
	if rk.deleted() {
		return fmt.Errorf("recipe: the key %q was deleted", rk.key)
	}
	_, err := rk.client.Put(rk.client.Ctx(), rk.key, val, clientv3.WithLease(rk.lease))
	return err
}

// EphemeralKV is a key that is deleted when its session ends.
type EphemeralKV struct{ RemoteKV }

// createKey puts a key that must not exist yet; otherwise the error is ErrKeyExists. It is
// sent once: if its response is lost, the key may have been put and then deleted by
// others, and a repetition would put it a second time.
func createKey(c *clientv3.Client, key, val string) error {
	ctx := c.Ctx()
	resp, err := c.Txn(ctx).If(isFree(key)).Then(clientv3.OpPut(key, val)).Commit()
	if err == nil && !resp.Succeeded {
		return ErrKeyExists
	}
	return err
}

func isFree(key string) clientv3.Cmp { return clientv3.Compare(clientv3.Version(key), "=", 0) }

// lastName is the suffix of the newest name from uniqueKey.
var lastName atomic.Int64

// uniqueKey returns a key below a prefix that is unique in this process, and almost
// certainly outside: its suffix is the time in nanoseconds, or the previous suffix plus
// one if the clock has not advanced.
func uniqueKey(prefix string) string {
	for {
		last := lastName.Load()
		next := max(time.Now().UnixNano(), last+1)
		if lastName.CompareAndSwap(last, next) {
			return fmt.Sprintf("%s/%d", prefix, next)
		}
	}
}

// discardTimeout is the longest time that a server works on a request: 5 s plus
// twice the election timeout, 7 s by default. A member that has not answered by then
// will not answer.
const discardTimeout = 7 * time.Second

// discard deletes the key of a session, if it exists, after a failure. If that fails,
// the key is deleted with the session's lease.
func discard(s *concurrency.Session, key string) {
	if err := s.Err(); errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, clientv3.ErrLeaseUnanswered) {
		return
	}
	ctx, cancel := context.WithTimeout(s.Client().Ctx(), discardTimeout)
	defer cancel()
	isOurs := clientv3.Compare(clientv3.LeaseValue(key), "=", s.Lease())
	// The caller gets the first failure.
	_, _ = s.Client().Txn(ctx).If(isOurs).Then(clientv3.OpDelete(key)).Commit()
}
