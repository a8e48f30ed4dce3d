package linear

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/batch"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// Client is the client that is put to the test.
type Client interface {
	// Do makes one operation on the keys of a group, whose names it is given. Those that are Shared
	// are all made on one client.
	Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error)
	// Close ends the client.
	Close() error
}

// Quorate connects through a client of Quorate as it comes: but for the endpoints and
// a logger that says nothing, every field of its configuration has its default.
func Quorate(endpoints []string) (Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	q, err := cached(quorate{Client: c, sharing: sharing(c.KV)})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return q, nil
}

// Idempotent connects through a client of Quorate whose writes are idempotent.
func Idempotent(endpoints []string) (Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	writer, err := idempotent.New(context.Background(), c, idempotent.Config{})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.KV = writer
	q, err := cached(quorate{Client: c, sharing: sharing(writer), writer: writer})
	if err != nil {
		return nil, errors.Join(err, writer.Close(), c.Close())
	}
	return q, nil
}

// cached returns a client with a cache of all keys of groups, over its KV and Watcher as they are.
func cached(q quorate) (quorate, error) {
	c, err := cache.New(q.Client, cache.Config{Prefixes: []string{keyPrefix}, ProbeInterval: time.Second})
	q.cache = c
	return q, err
}

// sharing returns the KV for operations that share RPCs. As soon as two meet they do.
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
	_ = pause.For(ctx, responsePause) // what is known is known, though the caller has left
	return response, err
}

type quorate struct {
	*clientv3.Client

	sharing clientv3.KV
	cache   *cache.Cache
	writer  *idempotent.KV // nil if writes are plain
}

// FromMemory returns how many gets the cache has answered.
func (c quorate) FromMemory() int64 { return c.cache.Stats().Hits }

func (c quorate) Close() error {
	c.cache.Close()
	if c.writer != nil {
		return errors.Join(c.writer.Close(), c.Client.Close())
	}
	return c.Client.Close()
}

// kv returns the KV for an operation.
func (c quorate) kv(request model.Request) clientv3.KV {
	switch {
	case request.Shared:
		return c.sharing
	case request.Cached:
		return c.cache
	default:
		return c.KV
	}
}

// Do makes plain gets, puts and deletes by the methods of those names.
func (c quorate) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	switch request.Kind {
	case model.Get, model.SerializableGet:
		return c.get(ctx, keys, request)
	case model.Put:
		return c.put(ctx, keys, request)
	case model.Delete:
		return c.remove(ctx, keys, request)
	case model.Snapshot, model.Txn:
		return c.txn(ctx, keys, request)
	default:
		return model.Response{}, fmt.Errorf("no such operation: %v", request)
	}
}

func (c quorate) get(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	var opts []clientv3.OpOption
	if request.Kind == model.SerializableGet {
		opts = append(opts, clientv3.WithSerializable())
	}
	response, err := c.kv(request).Get(ctx, keys[request.Then[0].Key], opts...)
	if err != nil {
		return model.Response{}, err
	}
	return plain(response.Header.GetRevision(), model.Result{KV: first(response.Kvs)}), nil
}

func (c quorate) put(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	act := request.Then[0]
	response, err := c.kv(request).Put(ctx, keys[act.Key], act.Value, options(act)...)
	if err != nil {
		return model.Response{}, err
	}
	return plain(response.Header.GetRevision(), model.Result{KV: shown(response.PrevKv)}), nil
}

func (c quorate) remove(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	act := request.Then[0]
	response, err := c.kv(request).Delete(ctx, keys[act.Key], options(act)...)
	if err != nil {
		return model.Response{}, err
	}
	return plain(response.Header.GetRevision(), model.Result{KV: first(response.PrevKvs), Deleted: response.Deleted}), nil
}

func (c quorate) txn(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	response, err := c.Txn(ctx).
		If(comparisons(keys, request.If)...).
		Then(operations(keys, request.Then)...).
		Else(operations(keys, request.Else)...).
		Commit()
	if err != nil {
		return model.Response{}, err
	}
	out := model.Response{Revision: response.Header.GetRevision(), Succeeded: response.Succeeded}
	for _, r := range response.Responses {
		var result model.Result
		switch {
		case r.GetResponseRange() != nil:
			result.KV = first(r.GetResponseRange().GetKvs())
		case r.GetResponsePut() != nil:
			result.KV = shown(r.GetResponsePut().GetPrevKv())
		case r.GetResponseDeleteRange() != nil:
			result.KV = first(r.GetResponseDeleteRange().GetPrevKvs())
			result.Deleted = r.GetResponseDeleteRange().GetDeleted()
		}
		out.Results = append(out.Results, result)
	}
	return out, nil
}
