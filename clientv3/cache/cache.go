package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/semantics"
)

var (
	// errUnavailable says that the cache cannot answer, so the server has to.
	errUnavailable = errors.New("etcdclient: cache: not available")
	// errLate says that a view has not reached a revision within MaxWait.
	errLate = errors.New("etcdclient: cache: late")
)

// ErrClosed is returned by operations on a closed [Cache].
var ErrClosed = errors.New("etcdclient: cache: closed")

// plain lets Cache embed a KV without exporting it.
type plain = clientv3.KV

// Cache serves gets of its prefixes from memory. It is a clientv3.KV, safe for concurrent use:
//
//	client.KV = c
//
// Get, and Do of a get, are answered as the package documentation says; GetStream and everything that
// is not a get go to the KV that the client had when the Cache was made.
type Cache struct {
	plain
	watcher   clientv3.Watcher
	client    *clientv3.Client
	cfg       Config
	views     []*view
	floors    floors
	requester progressRequester
	stats     counters
	bytes     atomic.Int64              // of all views
	stream    atomic.Int64              // names the current watch stream
	asked     atomic.Pointer[time.Time] // when progress of watches that are behind was last requested

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu         sync.Mutex
	closed     bool
	background sync.WaitGroup
}

var _ clientv3.KV = (*Cache)(nil)

// streams numbers the watch streams of all caches of the process.
var streams atomic.Int64

// New returns a Cache over the present client.KV and client.Watcher. It returns at once; until a prefix is
// loaded, its reads go to the server ([Cache.WaitSynced] waits). The error is one of the Config.
//
// The Cache must be closed; it also ends with the client. To use it below a namespace, make the Cache
// from the client, and then pass it to namespace.NewKV.
func New(client *clientv3.Client, cfg Config) (*Cache, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	c := &Cache{plain: client.KV, watcher: client.Watcher, client: client, cfg: cfg}
	if c.plain == nil || c.watcher == nil {
		return nil, errors.New("etcdclient: cache: the client has no KV or no Watcher")
	}
	c.ctx, c.cancel = context.WithCancelCause(client.Ctx())
	c.floors.c = c
	c.requester = progressRequester{c: c, wake: make(chan struct{}, 1), advanced: make(chan struct{}, 1)}
	c.stream.Store(streams.Add(1))
	for _, p := range cfg.Prefixes {
		c.views = append(c.views, newView(c, p))
	}
	for _, v := range c.views {
		c.spawn(v.run)
		if cfg.OnStatus != nil {
			c.spawn(v.followStatus)
		}
	}
	c.spawn(c.requester.run)
	c.spawn(c.probe)
	return c, nil
}

// spawn runs f in a goroutine that Close waits for. It returns false, and does not run f, once the cache is closed.
func (c *Cache) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.ctx.Err() != nil {
		return false
	}
	c.background.Go(f)
	return true
}

// Close ends the cache and its watches, and returns when its goroutines have ended. It does not wait for the goroutines of
// handlers, each of which ends when the call in progress returns, so a handler may call Close. Informers over it end. Reads
// that wait, and those that follow, go to the server. The functions of a Config, and Decode, must not call it.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel(ErrClosed)
	c.background.Wait()
	for _, v := range c.views {
		v.drop(ErrClosed)
	}
}

// WaitSynced returns when every prefix has been loaded once. The error is that of ctx, with the latest
// reason why a prefix is not loaded, or [ErrClosed].
func (c *Cache) WaitSynced(ctx context.Context) error {
	for _, v := range c.views {
		if c.ctx.Err() != nil {
			return ErrClosed
		}
		select {
		case <-v.loaded:
		case <-c.ctx.Done():
			return ErrClosed
		case <-ctx.Done():
			if err := v.lastError(); err != nil {
				return fmt.Errorf("etcdclient: cache: %q is not loaded: %w (%w)", v.prefix, ctx.Err(), err)
			}
			return ctx.Err()
		}
	}
	return nil
}

// Get answers from memory if it can, and from the server otherwise, see the package
// documentation.
func (c *Cache) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return c.get(ctx, clientv3.OpGet(key, opts...))
}

func (c *Cache) get(ctx context.Context, op clientv3.Op) (*clientv3.GetResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, r := boundOf(ctx), rangeOf(op)
	v := c.viewOf(r)
	if v == nil || !answerable(op) || hasMetadata(ctx) {
		return c.elsewhere(ctx, op, b)
	}
	s, err := v.snapshotFor(ctx, op, b)
	switch {
	case errors.Is(err, errUnavailable):
		return c.elsewhere(ctx, op, b)
	case err != nil:
		return nil, err
	}
	c.stats.hits.Add(1)
	return s.answer(op, r, r == v.keys), nil
}

// hasMetadata reports whether a caller's context has outgoing metadata that only a server can answer to, such as
// another user's token. A floor shows that there is a leader.
func hasMetadata(ctx context.Context) bool {
	md, _ := metadata.FromOutgoingContext(ctx)
	delete(md, rpctypes.MetadataRequireLeaderKey) // from a copy
	return len(md) > 0
}

// viewOf returns the view that has all of a range, nil if none has.
func (c *Cache) viewOf(r semantics.Range) *view {
	for _, v := range c.views {
		if v.keys.Includes(r) {
			return v
		}
	}
	return nil
}

func (c *Cache) remote(ctx context.Context, op clientv3.Op) (*clientv3.GetResponse, error) {
	resp, err := c.plain.Do(ctx, op)
	return resp.Get(), err
}

// Do answers a get as [Cache.Get] does; the server executes other operations.
func (c *Cache) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	if !op.IsGet() {
		return c.plain.Do(ctx, op)
	}
	resp, err := c.get(ctx, op)
	return resp.OpResponse(), err
}

// streamContext returns ctx with metadata that no other watch has, so that the cache's watches have a
// stream of their own: a server answers no progress request on a stream while one of its watches
// is behind.
func (c *Cache) streamContext(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "quorate-cache", strconv.FormatInt(c.stream.Load(), 10))
}

// reopen moves the watches to another stream, and to another member if there is one.
func (c *Cache) reopen() {
	c.stats.reopened.Add(1)
	if w, ok := c.watcher.(interface{ Reopen(context.Context) }); ok {
		w.Reopen(c.streamContext(c.ctx))
		return
	}
	c.stream.Store(streams.Add(1))
	for _, v := range c.views {
		v.mu.Lock()
		if v.stop != nil {
			v.stop(errUnavailable) // opens the watch again, at the revision of the snapshot
		}
		v.mu.Unlock()
	}
}

// Freshness says how old the cache is.
type Freshness struct {
	// Revision is the one up to which every change of the cached keys is in memory, 0 while a
	// prefix is not loaded.
	Revision int64
	// Age bounds how old the cache is: it has every write that was acknowledged this long ago or
	// earlier, by the monotonic clock. It is negative while nothing is proven.
	Age time.Duration
	// Err says why linearizable gets of a prefix go to the server now: the prefix is not loaded, its watch is behind or not
	// open, the version of the server is unknown or one that loses events, or the server's progress proves nothing. It is
	// nil if memory answers the gets of all prefixes.
	Err error
}

// Freshness returns the freshness of the prefix that is furthest behind. It sends no request: an age grows
// until a linearizable or bounded read, or the probe of [Config.ProbeInterval], proves a younger one. An
// age of more than two intervals means that the cluster or the watch does not answer, or that memory
// answers no linearizable reads (Err) while other keys are written.
func (c *Cache) Freshness() Freshness {
	now, loaded, f := time.Now(), true, Freshness{Revision: math.MaxInt64}
	for _, v := range c.views {
		f.Err = cmp.Or(f.Err, v.remoteReason())
		s, asOf := v.snap.Load(), v.asOf.Load()
		if loaded = loaded && s != nil && asOf != nil; loaded {
			f.Revision, f.Age = min(f.Revision, s.rev), max(f.Age, now.Sub(*asOf))
		}
	}
	if !loaded {
		return Freshness{Age: -1, Err: f.Err}
	}
	return f
}
