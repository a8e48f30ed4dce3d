package leasing

import (
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/lineage"
)

// cache is the state of the protocol on this side: which keys are owned, and what
// they hold. It does no I/O.
//
// It is off without a session, suspended while the leasing keys are not being
// watched, and on otherwise. Only what is on acquires keys, and only what is on and
// whose lease certainly lives answers.
type cache struct {
	prefix string
	now    func() time.Time

	// mu guards what follows.
	mu      sync.Mutex
	session *leaseSession // nil: off
	on      bool
	entries map[string]*entry
	// acquiring holds the acquisition in flight of each key, at most one.
	acquiring map[string]*acquisition
	backoffs  keyBackoff
	// header is the one with the highest revision of all answers of the session.
	header *pb.ResponseHeader
}

// leaseSession is what the cache knows of a session: its lease, and whether that certainly
// lives at a moment, which is the present or past.
type leaseSession struct {
	lease   clientv3.LeaseID
	aliveAt func(time.Time) bool
}

// entry is a key that is owned. It leaves the cache for good when ownership ends,
// so whoever holds one tells by identity whether it is still the present one.
type entry struct {
	key string
	// rev is the revision that created the leasing key.
	rev int64
	// item is the key as of revision at; nil if it does not exist. It is replaced,
	// never changed.
	item *mvccpb.KeyValue
	at   int64
	// writers counts this client's writes that were begun and not answered. Any
	// of them may have been carried out, so nothing is served meanwhile.
	writers int
}

// acquisition is an attempt to own a key, from before the request is sent until its
// answer is processed.
type acquisition struct {
	key     string
	session *leaseSession
	// floor is the highest revision that is known to have created no leasing key
	// that still counts: one created at or below it has been, or is to be, deleted.
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
func (c *cache) start(t *leaseSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.on, c.header = t, false, nil
	c.entries, c.acquiring = map[string]*entry{}, map[string]*acquisition{}
}

// stop ends the session and returns the leasing keys that it owned.
func (c *cache) stop() []leasingKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	owned := make([]leasingKey, 0, len(c.entries))
	for _, e := range c.entries {
		owned = append(owned, c.leasingKeyOf(e))
	}
	c.session, c.on, c.entries, c.acquiring = nil, false, nil, nil
	return owned
}

// suspend stops the cache from answering and acquiring until resync. Acquisitions
// in flight come to nothing: what happened to their leasing keys is not seen.
func (c *cache) suspend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = false
	clear(c.acquiring)
}

// resync compares the entries with all leasing keys as of a revision, forgets those
// that are not owned any more, and switches the cache on. It returns this session's
// leasing keys that others want.
func (c *cache) resync(t *leaseSession, listed []*mvccpb.KeyValue, rev int64) (wanted []leasingKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != t {
		return nil
	}
	owned := map[string]bool{}
	for _, l := range listed {
		key := strings.TrimPrefix(string(l.Key), c.prefix)
		switch {
		case clientv3.LeaseID(l.Lease) != t.lease:
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

// observe learns the header of an answer.
func (c *cache) observe(h *pb.ResponseHeader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observeLocked(h)
}

func (c *cache) observeLocked(h *pb.ResponseHeader) {
	if h.GetRevision() > c.header.GetRevision() {
		c.header = h
	}
}

// seen is how far the answers of the session are.
func (c *cache) seen() lineage.Point {
	c.mu.Lock()
	defer c.mu.Unlock()
	return lineage.Point{Cluster: c.header.GetClusterId(), Revision: c.header.GetRevision()}
}

// get answers a get of one key, nil if the cache cannot.
func (c *cache) get(key string, op clientv3.Op) *clientv3.GetResponse {
	c.mu.Lock()
	e := c.readableLocked(key)
	header := c.header
	ok := e != nil && c.servingLocked()
	var item *mvccpb.KeyValue
	if ok {
		item = e.item
	}
	c.mu.Unlock()
	if !ok {
		return nil
	}
	return answer(header, item, op)
}

// readableLocked returns the entry of a key if it shows what the server has, and
// nil otherwise. It may be served only if servingLocked says so afterwards.
func (c *cache) readableLocked(key string) *entry {
	if e := c.entries[key]; e != nil && e.writers == 0 {
		return e
	}
	return nil
}

// servingLocked reports whether what the cache holds is owned at this moment.
func (c *cache) servingLocked() bool {
	return c.on && c.session.aliveAt(c.now())
}

// beginAcquire begins to acquire a key that is not in the cache. It returns nil if
// that should not be done now.
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

// endAcquire ends an acquisition that failed. It reports whether that was the present
// one of its key: then no leasing key that it found can be of any other.
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

// insert ends an acquisition that created its leasing key at rev, when the key was
// item. If ownership has ended before it could begin, the key does not enter the
// cache.
func (c *cache) insert(a *acquisition, item *mvccpb.KeyValue, rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.acquiring[a.key] != a {
		return
	}
	delete(c.acquiring, a.key)
	if rev > a.floor {
		c.entries[a.key] = &entry{key: a.key, rev: rev, item: item, at: rev}
	}
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

// revokeEvent notes that the leasing key of a key, attached to lease and created
// at rev, is wanted by another client. It reports whether it is this session's, so
// that it is to be deleted.
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
