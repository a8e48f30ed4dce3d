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
	"github.com/quorate/quorate/clientv3/internal/settle"
)

// RemoteKV is a key that this package has put. It is not safe for concurrent use.
type RemoteKV struct {
	client *clientv3.Client // nil if there is no key, or no more
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

// Delete deletes the key. Once that is done, further calls do nothing.
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

// Put gives the key another value. It keeps its lease. The error says so if the key was
// deleted.
func (rk *RemoteKV) Put(val string) error {
	if rk.deleted() {
		return fmt.Errorf("recipe: the key %q was deleted", rk.key)
	}
	_, err := rk.client.Put(rk.client.Ctx(), rk.key, val, clientv3.WithLease(rk.lease))
	return err
}

// EphemeralKV is a key that goes when the session does that it belongs to.
type EphemeralKV struct{ RemoteKV }

// createKey puts a key that must not exist yet; otherwise the error is ErrKeyExists. It is
// sent once: where its answer is lost, the key may have been put and deleted by others
// since, and would be put a second time.
func createKey(c *clientv3.Client, key, val string) error {
	ctx := c.Ctx()
	resp, err := c.Txn(ctx).If(isFree(key)).Then(clientv3.OpPut(key, val)).Commit()
	if err == nil && !resp.Succeeded {
		return ErrKeyExists
	}
	return err
}

func isFree(key string) clientv3.Cmp { return clientv3.Compare(clientv3.Version(key), "=", 0) }

// lastName is what the newest name of uniqueKey ends in.
var lastName atomic.Int64

// uniqueKey returns a key below a prefix that nobody in this process has, and hardly
// anybody outside: it ends in the time, in nanoseconds, or in what follows the last name
// if the clock does not.
func uniqueKey(prefix string) string {
	for {
		last := lastName.Load()
		next := max(time.Now().UnixNano(), last+1)
		if lastName.CompareAndSwap(last, next) {
			return fmt.Sprintf("%s/%d", prefix, next)
		}
	}
}

// createUnique puts a key below a prefix that nobody else has.
func createUnique(c *clientv3.Client, prefix, val string) error {
	for {
		if err := createKey(c, uniqueKey(prefix), val); !errors.Is(err, ErrKeyExists) {
			return err
		}
	}
}

// createEphemeral puts a key below a prefix that nobody else has and that goes with the
// session. If it fails there is no key.
func createEphemeral(ctx context.Context, s *concurrency.Session, prefix string) (*EphemeralKV, error) {
	for {
		key := uniqueKey(prefix)
		resp, unsure, err := settle.Commit(ctx, func() clientv3.Txn {
			return s.Client().Txn(ctx).If(isFree(key)).
				Then(clientv3.OpPut(key, "", clientv3.WithLease(s.Lease()))).
				Else(clientv3.OpGet(key))
		})
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return nil, fmt.Errorf("recipe: %w: %w", concurrency.ErrSessionExpired, err)
		case err != nil:
			discard(s, key)
			return nil, err
		case resp.Succeeded:
			return newEphemeral(s, key, resp.Header.Revision), nil
		}
		found := resp.Responses[0].GetResponseRange().Kvs[0]
		if unsure != nil && found.Lease == int64(s.Lease()) { // nobody else has this name
			return newEphemeral(s, key, found.CreateRevision), nil
		}
	}
}

func newEphemeral(s *concurrency.Session, key string, rev int64) *EphemeralKV {
	return &EphemeralKV{RemoteKV{client: s.Client(), key: key, rev: rev, lease: s.Lease()}}
}

// discardTimeout is how long a server works on a request at most: 5 s and twice the
// election timeout, 7 s by default. A member that has not answered by then will not.
const discardTimeout = 7 * time.Second

// discard deletes the key of a session, if there is one, after a failure. What cannot be
// deleted goes with the session, as everything does if it is the lease that has ended.
func discard(s *concurrency.Session, key string) {
	if err := s.Err(); errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, clientv3.ErrLeaseUnanswered) {
		return
	}
	ctx, cancel := context.WithTimeout(s.Client().Ctx(), discardTimeout)
	defer cancel()
	isOurs := clientv3.Compare(clientv3.LeaseValue(key), "=", s.Lease())
	// The failure before this is what the caller needs to know.
	_, _ = s.Client().Txn(ctx).If(isOurs).Then(clientv3.OpDelete(key)).Commit()
}
