package linear

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/batch"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// Client is the client under test. All Shared operations are made on one client.
type Client interface {
	client.KV
	// Close ends the client.
	Close() error
}

// connect connects through a client of Quorate as it comes.
func connect(endpoints []string, idempotentWrites bool) (Client, error) {
	c, err := quorate.Dial(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		return nil, err
	}
	q := clientUnderTest{Client: c, closeAll: c.Close}
	if idempotentWrites {
		if q.closeAll, err = quorate.WriteOnce(c); err != nil {
			return nil, err
		}
	}
	q.sharing = sharing(c.KV)
	if q.cache, err = newCache(c); err != nil {
		return nil, errors.Join(err, q.closeAll())
	}
	return q, nil
}

// newCache returns a cache of all keys of groups, over the KV and the Watcher of a client.
func newCache(c *clientv3.Client) (*cache.Cache, error) {
	return cache.New(c, cache.Config{Prefixes: []string{keyPrefix}, ProbeInterval: time.Second})
}

// sharing returns the KV for operations that share RPCs: two that are under way at once do.
func sharing(kv clientv3.KV) clientv3.KV {
	return batch.New(slow{kv}, batch.Config{JoinReads: true, GroupWrites: true, MaxAlone: 1})
}

// slow is a KV that keeps each response for a while, so that other operations begin after it was
// sent and before it is seen.
type slow struct{ clientv3.KV }

// responsePause is how long a response is kept.
const responsePause = 10 * time.Millisecond

func (s slow) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	response, err := s.KV.Do(ctx, op)
	_ = pause.For(ctx, responsePause) // the response counts, although the context may have ended
	return response, err
}

// clientUnderTest has the KVs of a client that operations can use.
type clientUnderTest struct {
	*clientv3.Client

	sharing  clientv3.KV
	cache    *cache.Cache
	closeAll func() error
}

// FromMemory returns how many gets the cache has answered.
func (c clientUnderTest) FromMemory() int64 { return c.cache.Stats().Hits }

func (c clientUnderTest) Close() error {
	c.cache.Close()
	return c.closeAll()
}

// Do implements [client.KV].
func (c clientUnderTest) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	kv := c.KV
	switch {
	case request.Shared:
		kv = c.sharing
	case request.Cached:
		kv = c.cache
	}
	return quorate.NewKV(kv).Do(ctx, keys, request)
}
