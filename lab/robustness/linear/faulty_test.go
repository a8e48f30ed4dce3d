//go:build experiment

package linear

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/internal/soaktest"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/retry"
)

// stale makes a serializable read of every get.
type stale struct{ Client }

func (c stale) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	if request.Kind == model.Get {
		request.Kind = model.SerializableGet
	}
	return c.Client.Do(ctx, keys, request)
}

// repeating makes a write again when it does not know whether it was executed.
type repeating struct{ Client }

func (c repeating) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	response, err := c.Client.Do(ctx, keys, request)
	if history.OutcomeOf(request.Kind.Writes(), err) != model.Unknown {
		return response, err
	}
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	return c.Client.Do(again, keys, request)
}

// denying says that a write had no effect when it does not know.
type denying struct{ Client }

func (c denying) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	response, err := c.Client.Do(ctx, keys, request)
	if history.OutcomeOf(request.Kind.Writes(), err) == model.Unknown {
		err = rpctypes.ErrTooManyRequests
	}
	return response, err
}

// joinPause is how long a get is in flight at least.
const joinPause = 50 * time.Millisecond

// joining has a get join one of the same key that is in flight.
type joining struct {
	Client

	mu       *sync.Mutex
	inFlight map[string]*flight
}

type flight struct {
	done     chan struct{}
	response model.Response
	err      error
}

func newJoining(sound Client) Client { return joining{sound, &sync.Mutex{}, map[string]*flight{}} }

func (c joining) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	if request.Kind != model.Get || !request.Shared {
		return c.Client.Do(ctx, keys, request)
	}
	key := keys[request.Then[0].Key]
	c.mu.Lock()
	f, joins := c.inFlight[key]
	if !joins {
		f = &flight{done: make(chan struct{})}
		c.inFlight[key] = f
	}
	c.mu.Unlock()
	if !joins {
		f.response, f.err = c.Client.Do(ctx, keys, request)
		time.Sleep(joinPause) // so that writes end meanwhile
		c.mu.Lock()
		delete(c.inFlight, key)
		c.mu.Unlock()
		close(f.done)
	}
	<-f.done
	return f.response, f.err
}

// resending loses the response to every other group and says that nothing of it was executed, so
// that its writes are sent again.
type resending struct {
	clientv3.KV

	groups *atomic.Int64
}

func (k resending) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	response, err := k.KV.Do(ctx, op)
	if err == nil && op.IsTxn() && k.groups.Add(1)%2 == 0 {
		return clientv3.OpResponse{}, rpctypes.ErrTooManyRequests
	}
	return response, err
}

// newResending puts the fault below the groups of a client.
func newResending(sound Client) Client {
	c := sound.(clientUnderTest)
	c.sharing = sharing(resending{c.KV, new(atomic.Int64)})
	return c
}

// early answers a count-only get, by which a cache learns the floor of a linearizable get, with the
// revision of one that was sent a little before. A cache would do so if gets joined a floor in flight. The
// revision is no lower than the cache's own, which would mean a store that has gone back.
type early struct {
	clientv3.KV

	over atomic.Pointer[cache.Cache]
	mu   sync.Mutex
	last *clientv3.GetResponse
	sent time.Time
}

func (k *early) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	c := k.over.Load()
	if c == nil || !clientv3.OpGet(key, opts...).IsCountOnly() {
		return k.KV.Get(ctx, key, opts...)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil && time.Since(k.sent) < 200*time.Millisecond {
		header := proto.CloneOf(k.last.Header)
		header.Revision = max(header.Revision, c.Freshness().Revision)
		return &clientv3.GetResponse{Header: header}, nil
	}
	sent := time.Now()
	response, err := k.KV.Get(ctx, key, opts...)
	k.last, k.sent = response, sent
	return response, err
}

// slowWatcher is a Watcher that delivers everything a little late, but for progress if that
// overtakes.
type slowWatcher struct {
	clientv3.Watcher

	overtakes bool
}

// watchPause is how late its watches are.
const watchPause = 150 * time.Millisecond

func (w slowWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	from, to := w.Watcher.Watch(ctx, key, opts...), make(chan clientv3.WatchResponse)
	go func() {
		defer close(to)
		var held []clientv3.WatchResponse
		var due <-chan time.Time
		for {
			var out []clientv3.WatchResponse
			select {
			case response, open := <-from:
				switch {
				case !open:
					return
				case w.overtakes && len(response.Events) == 0:
					out = []clientv3.WatchResponse{response}
				default:
					held = append(held, response)
					if due == nil {
						due = time.After(watchPause)
					}
				}
			case <-due:
				out, held, due = held, nil, nil
			}
			for _, response := range out {
				select {
				case to <- response:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return to
}

// newSpoiledCache replaces the cache of a client by one over a KV and a Watcher with a mistake.
func newSpoiledCache(t *testing.T, sound Client, kv *early, watcher clientv3.Watcher) Client {
	c := sound.(clientUnderTest)
	c.cache.Close()
	soundKV, soundWatcher := c.KV, c.Watcher
	if kv != nil {
		c.KV = kv
	}
	c.Watcher = watcher
	var err error
	c.cache, err = newCache(c.Client)
	require.NoError(t, err)
	c.KV, c.Watcher = soundKV, soundWatcher
	if kv != nil {
		kv.over.Store(c.cache)
	}
	return c
}

// TestFaultyClientsAreFound puts clients that break promises in place of the correct
// one. Each is found out within some thousand operations, in one run or another.
func TestFaultyClientsAreFound(t *testing.T) {
	t.Parallel()
	require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(rpctypes.ErrTooManyRequests))
	callers := map[string]int{"resending": 48} // a shared client sends some writes alone, and groups the others
	tests := map[string]func(Client) Client{
		"stale":     func(sound Client) Client { return stale{sound} },
		"repeating": func(sound Client) Client { return repeating{sound} },
		"denying":   func(sound Client) Client { return denying{sound} },
		"joining":   newJoining,
		"resending": newResending,
		"early floor": func(sound Client) Client {
			c := sound.(clientUnderTest)
			return newSpoiledCache(t, sound, &early{KV: c.KV}, slowWatcher{c.Watcher, false})
		},
		"progress that overtakes": func(sound Client) Client {
			return newSpoiledCache(t, sound, nil, slowWatcher{sound.(clientUnderTest).Watcher, true})
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{
				Config: soaktest.Fixed(t), callers: callers[name],
				connect: func(endpoints []string) (Client, error) {
					sound, err := connect(endpoints, false)
					if err != nil {
						return nil, err
					}
					return spoil(sound), nil
				},
			}
			var result robustness.Outcome
			for result.Verdict.OK() {
				var err error
				result, err = cfg.Run(t.Context())
				require.NoError(t, err)
				cfg.Seed++
			}
			violation := result.Verdict.Violations[0]
			require.Equal(t, model.Linear, violation.Promise)
			t.Log(violation.Message)
		})
	}
}
