package leasing

import (
	"context"
	"sync"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/pause"
)

// releaseQueue holds the leasing keys that this client has released and not yet
// deleted.
type releaseQueue struct {
	mu      sync.Mutex
	pending map[string]int64 // creation revision by name
	more    chan struct{}    // holds a token while pending may be non-empty
}

// add adds leasing keys. Of two incarnations of one, only the later can exist.
func (q *releaseQueue) add(keys ...leasingKey) {
	if len(keys) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range keys {
		q.pending[l.name] = max(q.pending[l.name], l.rev)
	}
	pause.Signal(q.more)
}

func (q *releaseQueue) take() []leasingKey {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := make([]leasingKey, 0, len(q.pending))
	for name, rev := range q.pending {
		keys = append(keys, leasingKey{name, rev})
	}
	clear(q.pending)
	return keys
}

// release deletes the queued leasing keys until the KV is closed.
func (k *kv) release() {
	for {
		select {
		case <-k.releases.more:
			// On an error the KV is closed, and the leasing keys are deleted with the
			// session, or the server refuses, and the next revocation requests it again.
			_ = k.deleteKeys(k.ctx, k.releases.take())
		case <-k.ctx.Done():
			return
		}
	}
}

func (k *kv) deleteKeys(ctx context.Context, keys []leasingKey) error {
	_, _, err := k.eachIf(ctx, keys, func(lkey string) clientv3.Op { return clientv3.OpDelete(lkey) })
	return err
}
