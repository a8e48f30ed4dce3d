package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/btree"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/pause"
)

// InformerConfig configures an [Informer] of objects of type T. Decode is required.
type InformerConfig[T any] struct {
	// Prefix is the prefix of the objects' keys: a prefix of the Cache, or a longer one. The
	// default is the Cache's prefix, if it has only one.
	Prefix string

	// Decode makes an object of a key and its value. It must not change them; the object may refer
	// to them. It is called by one goroutine, once for each value that is seen. When it fails,
	// the key keeps the last object that could be decoded.
	Decode func(key, value []byte) (T, error)

	// Indexes are functions that return the values under which an object is found with
	// [Informer.ByIndex], by the name of the index. They must not call the Informer.
	Indexes map[string]func(key string, object T) []string

	// OnDecodeError, if set, is called when Decode fails. It must not block.
	OnDecodeError func(key string, revision int64, err error)
}

// Object is a key that was decoded. It is shared and must not be changed.
type Object[T any] struct {
	Key   string
	Value T
	// CreateRevision, ModRevision, Version and Lease are those of the key.
	CreateRevision, ModRevision, Version, Lease int64

	history int64 // of the snapshot that it was made of
	gone    bool  // the key was deleted
}

// ChangeType is the kind of a [Change].
type ChangeType int

const (
	// Added is an object that is new to the handler: Old is nil.
	Added ChangeType = iota + 1
	// Updated is an object that the handler knows as Old.
	Updated
	// Deleted is an object that the handler knows as Old and that is gone: New is nil.
	Deleted
	// Synced follows the objects that existed when the handler was added, or when the informer
	// was first loaded. It comes once.
	Synced
	// Relisted precedes the changes of a [Resynced]: intermediate states were not seen. It overtakes the pending changes of
	// the handler, even Synced, and several Relisted are merged into one.
	Relisted
)

func (t ChangeType) String() string {
	names := map[ChangeType]string{Added: "added", Updated: "updated", Deleted: "deleted", Synced: "synced", Relisted: "relisted"}
	return cmp.Or(names[t], fmt.Sprintf("ChangeType(%d)", int(t)))
}

// Change is what a handler receives.
type Change[T any] struct {
	Type ChangeType
	// Key is that of the object; "" for Synced and Relisted.
	Key string
	// Old is the object of the key that the handler received last, and New is the present one.
	Old, New *Object[T]
}

// Informer keeps the objects of a prefix decoded and indexed, and passes changes to handlers. Its methods
// are safe for concurrent use.
//
// A slow handler delays no other, and costs one entry for each key at most: changes of a key that it has not
// received yet are merged into one, from the last object that it received to the present one. Use a watch to see
// every value.
type Informer[T any] struct {
	cfg    InformerConfig[T]
	cache  *Cache
	view   *view
	feed   *feed
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
	synced chan struct{}

	decodeErrors, delivered, merged atomic.Int64

	mu       sync.RWMutex
	objects  *btree.BTreeG[*Object[T]]
	indexes  map[string]map[string]map[string]*Object[T] // by name, value and key
	handlers map[*handler[T]]struct{}
	rev      int64
	updated  chan struct{} // closed at the next update, which may leave rev as it is or lower it
}

// NewInformer returns an Informer over a Cache. It lives until Close, or until the Cache is closed.
// The error is one of the configuration, or [ErrClosed].
func NewInformer[T any](c *Cache, cfg InformerConfig[T]) (*Informer[T], error) {
	if cfg.Decode == nil {
		return nil, errors.New("etcdclient: cache: InformerConfig.Decode is nil")
	}
	if cfg.Prefix == "" && len(c.views) == 1 {
		cfg.Prefix = c.views[0].prefix
	}
	v := c.viewOf(rangeOf(clientv3.OpGet(cfg.Prefix, clientv3.WithPrefix())))
	if v == nil {
		return nil, fmt.Errorf("etcdclient: cache: InformerConfig.Prefix %q is not within one of the prefixes of the Cache, %q", cfg.Prefix, c.cfg.Prefixes)
	}
	in := &Informer[T]{
		cfg: cfg, cache: c, view: v, feed: newFeed(cfg.Prefix), ended: make(chan struct{}), synced: make(chan struct{}),
		objects:  btree.NewG(32, func(a, b *Object[T]) bool { return a.Key < b.Key }),
		indexes:  make(map[string]map[string]map[string]*Object[T]),
		handlers: make(map[*handler[T]]struct{}),
		updated:  make(chan struct{}),
	}
	for name := range cfg.Indexes {
		in.indexes[name] = make(map[string]map[string]*Object[T])
	}
	in.ctx, in.cancel = context.WithCancel(c.ctx)
	if !c.spawn(in.run) {
		in.cancel()
		return nil, ErrClosed
	}
	v.subscribe(in.feed)
	return in, nil
}

// Close ends the informer and its handlers, and returns when the last of them has. A handler must not call it.
func (in *Informer[T]) Close() {
	in.cancel()
	<-in.ended
	in.mu.Lock()
	handlers := slices.Collect(maps.Keys(in.handlers))
	in.mu.Unlock()
	for _, h := range handlers {
		<-h.ended
	}
}

// HasSynced reports whether the objects have been loaded once.
func (in *Informer[T]) HasSynced() bool { return pause.Closed(in.synced) }

// WaitSynced returns when the objects have been loaded once, with the error of ctx, or with [ErrClosed] when the
// informer is closed.
func (in *Informer[T]) WaitSynced(ctx context.Context) error {
	select {
	case <-in.synced:
		return nil
	case <-in.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get returns the object of a key. It is as old as [Cache.Freshness] says, plus the time to decode it.
func (in *Informer[T]) Get(key string) (*Object[T], bool) {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return in.objects.Get(&Object[T]{Key: key})
}

// List returns all objects in the order of their keys.
func (in *Informer[T]) List() []*Object[T] {
	in.mu.RLock()
	defer in.mu.RUnlock()
	all := make([]*Object[T], 0, in.objects.Len())
	in.objects.Ascend(func(o *Object[T]) bool {
		all = append(all, o)
		return true
	})
	return all
}

// All returns the objects whose keys begin with a prefix, in the order of their keys, as they are when the iteration begins.
func (in *Informer[T]) All(prefix string) iter.Seq2[string, *Object[T]] {
	return func(yield func(string, *Object[T]) bool) {
		in.mu.Lock()
		objects := in.objects.Clone()
		in.mu.Unlock()
		objects.AscendGreaterOrEqual(&Object[T]{Key: prefix}, func(o *Object[T]) bool {
			return strings.HasPrefix(o.Key, prefix) && yield(o.Key, o)
		})
	}
}

// Done returns a channel that is closed when the informer is closed.
func (in *Informer[T]) Done() <-chan struct{} { return in.ctx.Done() }

// ByIndex returns the objects that an index has under a value, in the order of their keys. The error says that there is no such
// index.
func (in *Informer[T]) ByIndex(index, value string) ([]*Object[T], error) {
	in.mu.RLock()
	defer in.mu.RUnlock()
	values, ok := in.indexes[index]
	if !ok {
		return nil, fmt.Errorf("etcdclient: cache: the informer has no index %q", index)
	}
	found := make([]*Object[T], 0, len(values[value]))
	for _, o := range values[value] {
		found = append(found, o)
	}
	slices.SortFunc(found, func(a, b *Object[T]) int { return strings.Compare(a.Key, b.Key) })
	return found, nil
}

// InformerStats are the counters of an [Informer].
type InformerStats struct {
	// Objects is the number of objects, and Revision the revision that they are from.
	Objects  int
	Revision int64
	// DecodeErrors counts the values that could not be decoded.
	DecodeErrors int64
	// Delivered counts the changes that handlers received, and Merged those that were merged into
	// another one. Pending is how many changes wait for handlers.
	Delivered, Merged int64
	Pending           int
}

// Stats returns the present counters.
func (in *Informer[T]) Stats() InformerStats {
	in.mu.RLock()
	defer in.mu.RUnlock()
	s := InformerStats{
		Objects: in.objects.Len(), Revision: in.rev, DecodeErrors: in.decodeErrors.Load(),
		Delivered: in.delivered.Load(), Merged: in.merged.Load(),
	}
	for h := range in.handlers {
		s.Pending += h.pending()
	}
	return s
}

// run applies the changes of the cache.
func (in *Informer[T]) run() {
	defer close(in.ended)
	defer in.cancel()
	defer in.view.unsubscribe(in.feed)
	for {
		select {
		case <-in.ctx.Done():
			return
		case <-in.feed.wake:
		}
		if s, ch := in.view.take(in.feed); s != nil { // the next one wakes it again
			in.update(s, ch)
		}
	}
}

// update brings the objects up to date with a snapshot.
func (in *Informer[T]) update(s *snapshot, ch changes) {
	var changed []*Object[T]
	if ch.all {
		changed = in.compare(s)
	}
	for _, key := range ch.keys {
		old, _ := in.Get(key)
		it, _ := s.tree.Get(item{key: key})
		if o := in.decode(key, it.kv, s.history, old); o != nil {
			changed = append(changed, o)
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.rev = s.rev
	close(in.updated)
	in.updated = make(chan struct{})
	if ch.resync != nil && in.HasSynced() {
		for h := range in.handlers {
			h.announce(Relisted)
		}
	}
	for _, o := range changed {
		in.replaceLocked(o)
	}
	if !in.HasSynced() {
		close(in.synced)
		for h := range in.handlers {
			h.announce(Synced)
		}
	}
}

// compare returns how a snapshot differs from the objects.
func (in *Informer[T]) compare(s *snapshot) (changed []*Object[T]) {
	s.tree.AscendGreaterOrEqual(item{key: in.cfg.Prefix}, func(it item) bool {
		if !strings.HasPrefix(it.key, in.cfg.Prefix) {
			return false
		}
		old, _ := in.Get(it.key)
		if o := in.decode(it.key, it.kv, s.history, old); o != nil {
			changed = append(changed, o)
		}
		return true
	})
	for _, old := range in.List() {
		if _, ok := s.tree.Get(item{key: old.Key}); !ok {
			changed = append(changed, &Object[T]{Key: old.Key, gone: true})
		}
	}
	return changed
}

// decode returns the object of a key, nil if the key has not changed.
func (in *Informer[T]) decode(key string, kv *mvccpb.KeyValue, history int64, old *Object[T]) *Object[T] {
	switch {
	case kv == nil && old == nil:
		return nil
	case kv == nil:
		return &Object[T]{Key: key, gone: true}
	case old != nil && old.history == history && old.CreateRevision == kv.CreateRevision && old.ModRevision == kv.ModRevision:
		return nil
	}
	value, err := in.cfg.Decode(kv.Key, kv.Value)
	if err != nil {
		in.decodeErrors.Add(1)
		if in.cfg.OnDecodeError != nil {
			in.cfg.OnDecodeError(key, kv.ModRevision, err)
		}
		return nil
	}
	return &Object[T]{
		Key: key, Value: value, history: history,
		CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease,
	}
}

// replaceLocked replaces an object, and notifies the handlers.
func (in *Informer[T]) replaceLocked(o *Object[T]) {
	var old *Object[T]
	if o.gone {
		old, _ = in.objects.Delete(o)
	} else {
		old, _ = in.objects.ReplaceOrInsert(o)
	}
	for name, values := range in.cfg.Indexes {
		index := in.indexes[name]
		if old != nil {
			for _, value := range values(old.Key, old.Value) {
				delete(index[value], old.Key)
				if len(index[value]) == 0 {
					delete(index, value)
				}
			}
		}
		if o.gone {
			continue
		}
		for _, value := range values(o.Key, o.Value) {
			if index[value] == nil {
				index[value] = make(map[string]*Object[T])
			}
			index[value][o.Key] = o
		}
	}
	for h := range in.handlers {
		h.note(o.Key, old)
	}
}

// handler holds the pending changes for one function. Its goroutine calls the function.
type handler[T any] struct {
	in      *Informer[T]
	prefix  string
	f       func(Change[T])
	wake    chan struct{} // holds a value when there is a change
	removed chan struct{}
	ended   chan struct{}

	mu    sync.Mutex
	known map[string]*Object[T] // for each key in order, the object that the function received last; nil for none
	order []entry
}

// entry is a key, or an announcement.
type entry struct {
	key      string
	announce ChangeType // 0 for a key
}

// AddHandler passes the present objects to f, as Added, then Synced, and then changes. One goroutine makes all
// calls of f, one at a time, in the order in which keys changed first. remove ends them; a call that is under way
// may still run when it returns.
func (in *Informer[T]) AddHandler(f func(Change[T])) (remove func()) {
	return in.AddPrefixHandler("", f)
}

// AddPrefixHandler is AddHandler for the objects whose keys begin with a prefix.
func (in *Informer[T]) AddPrefixHandler(prefix string, f func(Change[T])) (remove func()) {
	h := &handler[T]{
		in: in, prefix: prefix, f: f, wake: make(chan struct{}, 1), removed: make(chan struct{}), ended: make(chan struct{}),
		known: make(map[string]*Object[T]),
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ctx.Err() != nil {
		return func() {}
	}
	go h.run() // Cache.Close does not wait for it
	in.handlers[h] = struct{}{}
	in.objects.AscendGreaterOrEqual(&Object[T]{Key: prefix}, func(o *Object[T]) bool {
		h.note(o.Key, nil)
		return strings.HasPrefix(o.Key, prefix)
	})
	if in.HasSynced() {
		h.announce(Synced)
	}
	return sync.OnceFunc(func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.handlers, h)
		close(h.removed)
	})
}

// note records a change of a key; was is the object before it.
func (h *handler[T]) note(key string, was *Object[T]) {
	if !strings.HasPrefix(key, h.prefix) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.known[key]; ok {
		h.in.merged.Add(1)
		return
	}
	h.known[key] = was
	h.order = append(h.order, entry{key: key})
	h.signal()
}

// announce puts Relisted before all pending changes, because changes of the relist may be merged into them, and Synced
// after them.
func (h *handler[T]) announce(t ChangeType) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case t == Synced:
		h.order = append(h.order, entry{announce: t})
	case len(h.order) == 0 || h.order[0].announce != t:
		h.order = slices.Insert(h.order, 0, entry{announce: t})
	}
	h.signal()
}

func (h *handler[T]) signal() { pause.Signal(h.wake) }

func (h *handler[T]) pending() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.order)
}

func (h *handler[T]) run() {
	defer close(h.ended)
	for {
		select {
		case <-h.wake:
		case <-h.removed:
			return
		case <-h.in.ctx.Done():
			return
		}
		for change, ok := h.next(); ok; change, ok = h.next() {
			if change.Type != 0 {
				h.in.delivered.Add(1)
				h.f(change)
			}
		}
	}
}

// next returns the next change, and false if there is none. The change has type 0 if the key is as the function
// knows it.
func (h *handler[T]) next() (Change[T], bool) {
	if pause.Closed(h.removed) || h.in.ctx.Err() != nil {
		return Change[T]{}, false
	}
	h.in.mu.RLock() // so that the objects do not change while the entry is taken
	defer h.in.mu.RUnlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.order) == 0 {
		return Change[T]{}, false
	}
	e := h.order[0]
	h.order = h.order[1:]
	if e.announce != 0 {
		return Change[T]{Type: e.announce}, true
	}
	old := h.known[e.key]
	delete(h.known, e.key)
	now, _ := h.in.objects.Get(&Object[T]{Key: e.key})
	change := Change[T]{Key: e.key, Old: old, New: now}
	switch {
	case old == now:
	case old == nil:
		change.Type = Added
	case now == nil:
		change.Type = Deleted
	default:
		change.Type = Updated
	}
	return change, true
}

// feed holds the keys of a prefix that have changed and that an informer has not taken yet: one entry for each key,
// however often it changes.
type feed struct {
	prefix string
	wake   chan struct{} // holds a value when there is something to take

	// Guarded by view.mu.
	changes
	known map[string]struct{} // the keys in changes
}

// changes are what an informer has yet to take.
type changes struct {
	all    bool // anything may have changed
	resync *Resynced
	keys   []string // in the order in which they changed first
}

func newFeed(prefix string) *feed {
	return &feed{prefix: prefix, wake: make(chan struct{}, 1), changes: changes{all: true}, known: map[string]struct{}{}}
}

// noteLocked adds a change. It does not wake the informer for keys outside of its prefix.
func (f *feed) noteLocked(ch change) {
	if ch.resync != nil {
		f.resync = ch.resync
		f.all = true
	}
	if f.all {
		clear(f.known)
		f.keys = nil
		f.signal()
		return
	}
	for _, key := range ch.keys {
		if _, ok := f.known[key]; !ok && strings.HasPrefix(key, f.prefix) {
			f.known[key] = struct{}{}
			f.keys = append(f.keys, key)
			f.signal()
		}
	}
}

func (f *feed) signal() { pause.Signal(f.wake) }

// take returns the snapshot and what has changed up to it since the last time. Without a snapshot it takes nothing.
func (v *view) take(f *feed) (*snapshot, changes) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.snap.Load()
	if s == nil {
		return nil, changes{}
	}
	taken := f.changes
	f.changes = changes{}
	clear(f.known)
	return s, taken
}

// subscribe passes changes to a feed.
func (v *view) subscribe(f *feed) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.feeds[f] = struct{}{}
	f.signal()
}

func (v *view) unsubscribe(f *feed) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.feeds, f)
}
