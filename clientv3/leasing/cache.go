package leasing

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/clientv3/internal/reply"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// cache is the client's state of the protocol: the owned keys and their values. It
// does no I/O.
//
// It is off without a session, suspended while the leasing keys are not watched,
// and on otherwise. It acquires keys only while on, and serves reads only while on
// and the lease certainly lives.
type cache struct {
	prefix string
	now    func() time.Time

	// mu guards what follows.
	mu      sync.Mutex
	session *leaseSession // nil: off
	on      bool
	entries map[string]*entry
	// acquiring holds the in-flight acquisition of each key, at most one.
	acquiring map[string]*acquisition
	backoffs  keyBackoff
	// header is a copy of the response header with the highest revision in the session.
	header *pb.ResponseHeader
}

// leaseSession is the cache's view of a session: its lease, and a function that reports
// whether the lease certainly lives at a present or past time.
type leaseSession struct {
	lease   clientv3.LeaseID
	aliveAt func(time.Time) bool
}

// entry is an owned key. It is removed from the cache when ownership ends and never
// reused, so pointer identity shows whether an entry is still current.
type entry struct {
	key string
	// rev is the revision that created the leasing key.
	rev int64
	// item is the key as of revision at; nil if it does not exist. It is replaced,
	// never modified.
	item *mvccpb.KeyValue
	at   int64
	// writers counts this client's unanswered writes. Any of them may have been
	// executed, so the entry is not served meanwhile.
	writers int
}

// acquisition is an attempt to own a key, from before the request until its
// response is processed.
type acquisition struct {
	key     string
	session *leaseSession
	// floor is a revision at or below which no created leasing key is valid: it has
	// been deleted, or will be.
	floor int64
}

// leasingKey names one incarnation of a leasing key: a later one is created at
// another revision.
type leasingKey struct {
	name string
	rev  int64
}

func newCache(prefix string) *cache {
	return &cache{prefix: prefix, now: time.Now, backoffs: newKeyBackoff()}
}

// start begins a session, suspended.
func (c *cache) start(s *leaseSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.on, c.header = s, false, nil
	c.entries, c.acquiring = map[string]*entry{}, map[string]*acquisition{}
}

// stop ends the session.
func (c *cache) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.on, c.entries, c.acquiring = nil, false, nil, nil
}

// suspend stops the cache from serving and acquiring until resync. In-flight
// acquisitions fail: changes of their leasing keys are not seen.
func (c *cache) suspend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = false
	clear(c.acquiring)
}

// resync compares the entries with all leasing keys at a revision, drops entries
// that are no longer owned, and switches the cache on. It returns this session's
// leasing keys that others want to revoke.
func (c *cache) resync(listed []*mvccpb.KeyValue, rev int64) (wanted []leasingKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	owned := map[string]bool{}
	for _, l := range listed {
		key := strings.TrimPrefix(string(l.Key), c.prefix)
		switch {
		case clientv3.LeaseID(l.Lease) != c.session.lease:
		case string(l.Value) == revoked:
			c.invalidateLocked(key, l.CreateRevision)
			wanted = append(wanted, leasingKey{string(l.Key), l.CreateRevision})
		default:
			owned[key] = c.ownsLocked(key, l.CreateRevision)
		}
	}
	for key := range c.entries {
		if !owned[key] {
			c.invalidateLocked(key, rev)
		}
	}
	c.on = true
	return wanted
}

func (c *cache) observe(h *pb.ResponseHeader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observeLocked(h)
}

func (c *cache) observeLocked(h *pb.ResponseHeader) {
	if h.GetRevision() > c.header.GetRevision() {
		c.header = reply.Header(h, h.GetRevision()) // h is the caller's, who may change it
	}
}

// seen returns the cluster and the highest revision of the session's responses.
func (c *cache) seen() lineage.Point {
	c.mu.Lock()
	defer c.mu.Unlock()
	return lineage.Point{Cluster: c.header.GetClusterId(), Revision: c.header.GetRevision()}
}

// get serves a get of one key. It returns nil if the cache cannot.
func (c *cache) get(key string, op clientv3.Op) *clientv3.GetResponse {
	c.mu.Lock()
	e := c.readableLocked(key)
	if e == nil || !c.servingLocked() {
		c.mu.Unlock()
		return nil
	}
	header, item := c.header, e.item
	c.mu.Unlock()
	return answer(header, item, op)
}

// readableLocked returns the entry of a key if it equals the server's state, and
// otherwise nil. The entry may be served only if servingLocked returns true
// afterwards.
func (c *cache) readableLocked(key string) *entry {
	if e := c.entries[key]; e != nil && e.writers == 0 {
		return e
	}
	return nil
}

// servingLocked reports whether the cache's entries are owned at this moment.
func (c *cache) servingLocked() bool {
	return c.on && c.session.aliveAt(c.now())
}

// beginAcquire begins to acquire a key that is not in the cache. It returns nil if
// the key should not be acquired now.
func (c *cache) beginAcquire(key string) *acquisition {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.servingLocked() || c.entries[key] != nil || c.acquiring[key] != nil || c.backoffs.has(key, c.now()) {
		return nil
	}
	a := &acquisition{key: key, session: c.session}
	c.acquiring[key] = a
	return a
}

// endAcquire ends a failed acquisition. It reports whether it was the key's current
// one: then a leasing key of this session that it found belongs to no other
// acquisition.
func (c *cache) endAcquire(a *acquisition) (current bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.acquiring[a.key] != a {
		return false
	}
	delete(c.acquiring, a.key)
	c.backoffs.add(a.key, c.now())
	return true
}

// insert ends an acquisition that created its leasing key at rev and read item. If
// ownership has already ended, the key does not enter the cache, and insert returns false.
func (c *cache) insert(a *acquisition, item *mvccpb.KeyValue, rev int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.acquiring[a.key] != a {
		return false
	}
	delete(c.acquiring, a.key)
	if rev <= a.floor {
		return false
	}
	c.entries[a.key] = &entry{key: a.key, rev: rev, item: item, at: rev}
	return true
}

// invalidate ends the ownership of a key whose leasing key was created at or before
// rev.
func (c *cache) invalidate(key string, rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.invalidateLocked(key, rev)
}

func (c *cache) invalidateLocked(key string, rev int64) {
	if e := c.entries[key]; e != nil && e.rev <= rev {
		delete(c.entries, key)
		c.backoffs.add(key, c.now())
	}
	if a := c.acquiring[key]; a != nil {
		a.floor = max(a.floor, rev)
	}
}

func (c *cache) ownsLocked(key string, rev int64) bool {
	e := c.entries[key]
	return e != nil && e.rev == rev
}

// revokeEvent processes another client's request to revoke the leasing key,
// attached to lease and created at rev, of a key. It returns true if the leasing
// key belongs to this session and must be deleted.
func (c *cache) revokeEvent(key string, rev int64, lease clientv3.LeaseID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil || c.session.lease != lease {
		return false
	}
	c.invalidateLocked(key, rev)
	return true
}

func (c *cache) leasingKeyOf(e *entry) leasingKey {
	return leasingKey{name: c.prefix + e.key, rev: e.rev}
}

// keyBackoffTime is how long a key that another client wanted, or owns, is not
// acquired. As in the official client, a key with several writers is thus not
// acquired and revoked for each write.
const keyBackoffTime = 2 * time.Second

// keyBackoff holds keys for a while. Operations cost amortized O(1).
type keyBackoff struct {
	period time.Duration
	until  map[string]time.Time
	// sweepAt is the number of keys at which those whose time has passed are removed.
	sweepAt int
}

func newKeyBackoff() keyBackoff {
	return keyBackoff{period: keyBackoffTime, until: map[string]time.Time{}}
}

func (k *keyBackoff) add(key string, now time.Time) {
	if len(k.until) >= k.sweepAt {
		maps.DeleteFunc(k.until, func(_ string, until time.Time) bool { return !until.After(now) })
		k.sweepAt = 2*len(k.until) + 64
	}
	k.until[key] = now.Add(k.period)
}

func (k *keyBackoff) has(key string, now time.Time) bool { return k.until[key].After(now) }

// watchLeasingKeys watches all leasing keys until the session ends. When the watch
// breaks, the cache is suspended until the leasing keys have been listed and the
// watch continues from there. When the cluster has changed, the session belongs to
// another history and ends. After the first list, successful or not, nil is sent to
// ready.
func (k *kv) watchLeasingKeys(s *session, ready chan<- error) {
	var reported bool
	for failures := 1; s.ctx.Err() == nil; failures++ {
		rev, err := k.resync(s)
		if ready != nil && (err == nil || permanent(err)) {
			ready <- nil
			ready = nil
		}
		var seen bool
		if err == nil {
			var ev *clientv3.Event
			for ev, err = range clientv3.Events(s.ctx, k.client, k.prefix, clientv3.WithPrefix(), clientv3.WithRev(rev+1)) {
				if err != nil {
					break
				}
				seen = true
				k.leasingKeyEvent(ev)
			}
		}
		k.cache.suspend()
		if _, changed := errors.AsType[*clientv3.ClusterChangedError](err); changed {
			k.client.GetLogger().Warn("the cluster has changed; what was cached is dropped",
				zap.String("prefix", k.prefix), zap.Error(err))
			return
		}
		if seen {
			failures, reported = 1, false
		}
		if !reported && s.ctx.Err() == nil {
			reported = true
			k.client.GetLogger().Warn("leasing keys cannot be watched; nothing is cached until they can",
				zap.String("prefix", k.prefix), zap.Error(err))
		}
		_ = pause.For(s.ctx, pauses.Delay(failures)) // the loop checks the context
	}
	if ready != nil {
		ready <- nil
	}
}

// resync lists the leasing keys, and switches the cache on at the returned
// revision.
func (k *kv) resync(s *session) (rev int64, err error) {
	seen := k.cache.seen()
	resp, err := k.remote.Get(s.ctx, k.prefix, clientv3.WithPrefix())
	if err != nil {
		return 0, err
	}
	if c := lineage.Compare(seen, resp.Header, true); c != nil {
		return 0, (*clientv3.ClusterChangedError)(c)
	}
	k.cache.observe(resp.Header)
	k.releases.add(k.cache.resync(resp.Kvs, resp.Header.Revision)...)
	return resp.Header.Revision, nil
}

func (k *kv) leasingKeyEvent(ev *clientv3.Event) {
	key := strings.TrimPrefix(string(ev.Kv.Key), k.prefix)
	switch {
	case ev.Type == mvccpb.Event_DELETE:
		k.cache.invalidate(key, ev.Kv.ModRevision)
	case string(ev.Kv.Value) == revoked:
		l := leasingKey{string(ev.Kv.Key), ev.Kv.CreateRevision}
		if k.cache.revokeEvent(key, l.rev, clientv3.LeaseID(ev.Kv.Lease)) {
			k.releases.add(l)
		}
	}
}

// pauses is the backoff between attempts, with full jitter.
var pauses = retry.Policy{InitialBackoff: 50 * time.Millisecond, MaxBackoff: 2 * time.Second}

// permanent reports whether a repeated call would fail with the same error.
func permanent(err error) bool {
	switch retry.CodeOf(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return true
	default:
		return false
	}
}
