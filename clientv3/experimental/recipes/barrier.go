package recipe

import "github.com/quorate/quorate/clientv3"

// Barrier makes processes wait while its key exists. It is safe for concurrent use.
type Barrier struct {
	client *clientv3.Client
	key    string
}

// NewBarrier returns the barrier with the given key. It does not put the key.
func NewBarrier(client *clientv3.Client, key string) *Barrier { return &Barrier{client, key} }

// Hold puts the key: from then on Wait blocks. If the barrier is already held the error
// is [ErrKeyExists]. The key has no lease and outlives the process.
func (b *Barrier) Hold() error { return createKey(b.client, b.key, "") }

// Release deletes the key, regardless of the process that put it, and so ends all
// waits.
func (b *Barrier) Release() error {
	_, err := b.client.Delete(b.client.Ctx(), b.key)
	return err
}

// Wait returns nil when the barrier is released, and at once if it is not held. Its
// state may have changed again when Wait returns.
func (b *Barrier) Wait() error {
	ctx := b.client.Ctx()
	resp, err := b.client.Get(ctx, b.key, clientv3.WithKeysOnly())
	if err != nil || len(resp.Kvs) == 0 {
		return err
	}
	return waitGone(ctx, b.client, resp.Kvs[0], resp.Header.Revision)
}
