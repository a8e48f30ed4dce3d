package concurrency

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
)

// Semaphore is held by up to n sessions at a time. Use it from one goroutine at a time.
//
// The holders are the first n candidates in the order of arrival. All of its users must name
// the same n: one with a larger n may hold it beside n others. With n = 1 a semaphore is an
// [Election] of the same prefix, and excludes its leaders and the holders of a [Mutex].
//
// Each waiter watches the deletions of all keys of the semaphore, and reads them again when a
// place is free. Semaphores of one session with the same prefix are one candidate.
type Semaphore struct{ election Election }

// NewSemaphore returns the semaphore named pfx, with places for n holders; less than 1 counts
// as 1. A candidate's key is pfx, a slash and its session's lease in hexadecimal. Every key
// below pfx and the slash counts as a candidate, so no name may be below another's.
func NewSemaphore(s *Session, pfx string, n int) *Semaphore {
	m := &Semaphore{election: Election{waiter: newWaiter(s, pfx+"/")}}
	m.election.waiter.holders = n
	return m
}

// Acquire waits until the session is one of the holders. val is the value of its key, which
// others can read. The errors are those of [Election.Campaign].
func (m *Semaphore) Acquire(ctx context.Context, val string) error {
	return m.election.Campaign(ctx, val)
}

// Release gives the place to the next candidate. It does nothing if the caller is no holder.
// After an error the caller still counts as a holder and may call Release again.
func (m *Semaphore) Release(ctx context.Context) error { return m.election.Resign(ctx) }

// IsOwner returns a comparison that holds in a transaction if the caller is a holder. It never
// holds if the semaphore is not acquired.
func (m *Semaphore) IsOwner() clientv3.Cmp { return m.election.IsOwner() }

// Key returns the caller's key, and an empty string if it is no holder.
func (m *Semaphore) Key() string { return m.election.Key() }

// Rev returns the revision that created the caller's key. It is greater than that of every
// candidate that arrived before.
func (m *Semaphore) Rev() int64 { return m.election.Rev() }

// awaitPlace returns when one read, at one revision, shows that fewer keys than there are
// places are ahead of the waiter's.
func (w *waiter) awaitPlace(ctx context.Context) (queue, error) {
	for {
		resp, err := w.readAhead(ctx, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return queue{}, err
		}
		ahead := make(map[string]bool)
		for _, kv := range optxn.At(resp, 0).GetResponseRange().GetKvs() {
			ahead[string(kv.Key)] = true
		}
		if len(ahead) < w.holders {
			return queue{header: resp.Header}, nil
		}
		if err := w.awaitFreePlace(ctx, ahead, resp.Header.Revision); err != nil {
			return queue{}, err
		}
	}
}

// awaitFreePlace returns nil when so many of the keys ahead may have been deleted since rev that a
// place is free, or the waiter's own key. The next read shows what happened.
func (w *waiter) awaitFreePlace(ctx context.Context, ahead map[string]bool, rev int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	deletions := w.session.client.Watch(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithRev(rev+1), clientv3.WithFilterPut())
	return each(ctx, deletions, nil, func(_ *pb.ResponseHeader, ev *clientv3.Event) bool {
		delete(ahead, string(ev.Kv.Key))
		return len(ahead) >= w.holders && string(ev.Kv.Key) != w.key
	})
}
