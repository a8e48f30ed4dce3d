package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/semantics"
	"github.com/quorate/quorate/clientv3/internal/staleness"
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
	if v == nil {
		return c.elsewhere(ctx, op, b)
	}
	s, err := v.snapshotFor(ctx, op, b)
	switch {
	case errors.Is(err, errUnavailable):
		c.stats.misses.Add(1)
		return c.elsewhere(ctx, op, b)
	case err != nil:
		return nil, err
	}
	c.stats.hits.Add(1)
	return s.answer(op, r, r == v.keys), nil
}

// hasMetadata reports whether a caller's context has outgoing metadata that only a server can answer to, such as
// another user's token. RequireLeader's does not count: a read that needs a leader precedes a linearizable answer from memory.
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

const (
	defaultMaxBytes      = 256 << 20
	defaultMaxWait       = 500 * time.Millisecond
	defaultProbeInterval = time.Minute
	defaultMaxVersions   = 256
	defaultMaxEvents     = 4096

	// minProbeInterval keeps a configuration from polling the cluster.
	minProbeInterval = time.Second
	// maxProbeInterval keeps multiples of the interval within a Duration: 29 years.
	maxProbeInterval time.Duration = math.MaxInt64 / 10
)

// Config configures a [Cache]. Only Prefixes is required; the zero value of every other field means
// its default.
type Config struct {
	// Prefixes are the prefixes of the keys that are cached, "" for every key. None may begin
	// with another. Each costs one watch and the memory for its keys and values.
	Prefixes []string

	// MaxBytes bounds what the cache holds of all prefixes together: keys, values, and about 200
	// bytes for each key. A prefix that would exceed it is dropped and read from the server, and
	// loaded again after 5 to 10 minutes; [Config.OnDrop] gets an *[OverflowError]. The default is
	// 256 MiB.
	MaxBytes int64

	// MaxWait bounds how long a linearizable read waits for a watch that is behind. After it the
	// read goes to the server, and so do later ones until the watch has caught up. The default is
	// 500 ms.
	MaxWait time.Duration

	// ProbeInterval is how often the cache checks that its prefixes may still be read, by a read-only transaction for
	// each 128 of them, and proves its freshness if no read has done so, by a linearizable count of one key and a
	// progress request. It varies by 10 %. A stuck watch is detected, and reopened on another member, within an
	// interval and 5 s; a withdrawn permission, even for a part of a prefix, within an interval. The default is 1 min;
	// the least is 1 s.
	ProbeInterval time.Duration

	// MaxVersions bounds how many earlier versions of each prefix are kept for reads at a revision
	// (clientv3.WithRev), the pages of a range for instance; a version is the state after a
	// response of the watch. A version can be read even if the server has compacted it since. The
	// versions of a prefix hold at most an eighth of MaxBytes, in addition to MaxBytes. The
	// default is 256; a negative number keeps none.
	MaxVersions int

	// MaxEvents bounds how many events of each prefix are kept for watches of [Cache.Watcher], from its first call on. The events of a prefix hold
	// at most an eighth of MaxBytes, in addition to MaxBytes, and about twice that once watches deliver them, which share one copy. The latest
	// response of the watch is always kept. The default is 4096.
	MaxEvents int

	// OnResync, if set, is called when a prefix was read again because its watch could not
	// continue. It is called by the goroutine that follows the prefix and must not block.
	OnResync func(Resynced)

	// OnStatus, if set, is called with the first Status of each prefix and when its State changes, by a goroutine of the prefix. Err and Since may change
	// without a call, and a State that is soon replaced may be left out. Close waits for it to return.
	OnStatus func(Status)

	// OnDrop, if set, is called when the keys of a prefix were dropped from memory: with a *clientv3.ClusterChangedError, an
	// *[OverflowError], or rpctypes.ErrPermissionDenied. Reads go to the server until it is loaded again. The same rules hold
	// as for OnResync.
	OnDrop func(prefix string, cause error)
}

// Resynced says that a prefix was brought up to date by a read, because the revisions that its watch
// needed were compacted, or because its keys had been dropped. Of the changes in between only the
// result is known.
type Resynced struct {
	Prefix string
	// Revision is the revision of the read.
	Revision int64
	// Full says that everything was read, and not just what had changed.
	Full bool
	// Changed and Removed count the keys that are new or different, and those that are gone.
	Changed, Removed int
}

// OverflowError says that a prefix does not fit into [Config.MaxBytes].
type OverflowError struct {
	Prefix   string
	MaxBytes int64
}

func (e *OverflowError) Error() string {
	return fmt.Sprintf("etcdclient: cache: the prefix %q does not fit into %d bytes (Config.MaxBytes); it is read from the server", e.Prefix, e.MaxBytes)
}

func (cfg Config) complete() (Config, error) {
	cfg.Prefixes = slices.Sorted(slices.Values(cfg.Prefixes))
	if len(cfg.Prefixes) == 0 {
		return cfg, fmt.Errorf("etcdclient: cache: Prefixes is empty: name what is to be cached, \"\" for every key")
	}
	for i, p := range cfg.Prefixes[1:] {
		if strings.HasPrefix(p, cfg.Prefixes[i]) {
			return cfg, fmt.Errorf("etcdclient: cache: Prefixes has %q and %q: the first includes the second", cfg.Prefixes[i], p)
		}
	}
	switch {
	case cfg.MaxBytes < 0:
		return cfg, fmt.Errorf("etcdclient: cache: MaxBytes is %d: it cannot be negative; 0 means the default", cfg.MaxBytes)
	case cfg.MaxEvents < 0:
		return cfg, fmt.Errorf("etcdclient: cache: MaxEvents is %d: it cannot be negative; 0 means the default", cfg.MaxEvents)
	case cfg.MaxWait < 0:
		return cfg, fmt.Errorf("etcdclient: cache: MaxWait is %v: it cannot be negative; 0 means the default", cfg.MaxWait)
	case cfg.ProbeInterval != 0 && cfg.ProbeInterval < minProbeInterval:
		return cfg, fmt.Errorf("etcdclient: cache: ProbeInterval is %v: the least is %v; 0 means the default", cfg.ProbeInterval, minProbeInterval)
	}
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, defaultMaxBytes)
	cfg.MaxWait = cmp.Or(cfg.MaxWait, defaultMaxWait)
	cfg.ProbeInterval = min(cmp.Or(cfg.ProbeInterval, defaultProbeInterval), maxProbeInterval)
	cfg.MaxEvents = cmp.Or(cfg.MaxEvents, defaultMaxEvents)
	cfg.MaxVersions = min(max(cmp.Or(cfg.MaxVersions, defaultMaxVersions), 0), math.MaxInt-1) // the present one counts, too
	return cfg, nil
}

// bound is how old an answer may be.
type bound struct {
	stale time.Duration // 0: any age
	rev   int64         // 0: any revision
}

func boundOf(ctx context.Context) bound {
	b, _ := ctx.Value(staleness.Key{}).(bound)
	return b
}

// WithMaxStaleness returns a context whose gets through a [Cache] need not be linearizable: an answer
// has every write that was acknowledged earlier than d before the get began, on this process's
// monotonic clock. Nothing is asked of the cluster while the cache knows that it is fresh enough; d
// bounds how often that has to be proven, to once in d at most. For keys outside of the cache, one
// linearizable count in d serves all gets, which go to any member, the nearest for instance
// (clientv3.Config.Balancer); one that has not come far enough costs a second, linearizable get.
//
// It has no effect with a d of 0 or less, on gets with clientv3.WithSerializable or clientv3.WithRev,
// and on operations other than gets.
func WithMaxStaleness(ctx context.Context, d time.Duration) context.Context {
	b := boundOf(ctx)
	b.stale = max(d, 0)
	return context.WithValue(ctx, staleness.Key{}, b)
}

// NotOlderThan returns a context whose gets through a [Cache] need not be linearizable: an answer shows
// the store at rev or later. With the revision in the header of a write, its writer and any program
// that receives the revision read that write. Beside [WithMaxStaleness] both hold. A revision that the
// store has not reached within [Config.MaxWait], or at once where the server answers, gives
// rpctypes.ErrFutureRev. The same exceptions hold as for WithMaxStaleness.
func NotOlderThan(ctx context.Context, rev int64) context.Context {
	b := boundOf(ctx)
	b.rev = max(b.rev, rev)
	return context.WithValue(ctx, staleness.Key{}, b)
}
