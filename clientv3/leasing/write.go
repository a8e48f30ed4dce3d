package leasing

import (
	"context"
	"math"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// write executes op, which writes, when no other client owns a key that it may
// change.
//
// op is sent again only after a transaction that certainly did not execute it.
func (k *kv) write(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	for spans := k.spansOf(op); ; {
		if err := k.ctx.Err(); err != nil {
			return clientv3.OpResponse{}, err
		}
		w := k.cache.beginWrite(spans)
		resp, err := k.send(ctx, op, w)
		if err != nil {
			k.releases.add(k.cache.abandon(w)...)
			return clientv3.OpResponse{}, err
		}
		if resp.Succeeded {
			k.releases.add(k.cache.commit(w, resp.Header, w.refreshed(resp))...)
			return optxn.Part(optxn.At(resp, 0), op, resp.Header)
		}
		if err := k.makeWay(ctx, w, resp); err != nil {
			return clientv3.OpResponse{}, err
		}
		spans = w.spans
	}
}

// send executes op, and reads the owned keys again, if the guards of w hold.
// Otherwise it reads the conflicting leasing keys.
func (k *kv) send(ctx context.Context, op clientv3.Op, w *write) (*clientv3.TxnResponse, error) {
	guards := make([]clientv3.Cmp, len(w.spans))
	list := make([]clientv3.Op, len(w.spans))
	for i, s := range w.spans {
		guards[i], list[i] = s.guard(), s.list()
	}
	thenOps := []clientv3.Op{op}
	if refresh := w.refresh(); len(refresh) > 0 {
		thenOps = append(thenOps, clientv3.OpTxn(nil, refresh, nil))
	}
	return k.remote.Txn(ctx).If(guards...).Then(thenOps...).Else(list...).Commit()
}

// makeWay revokes the leasing keys that blocked w, and waits until they are
// deleted.
func (k *kv) makeWay(ctx context.Context, w *write, resp *clientv3.TxnResponse) error {
	k.cache.observe(resp.Header)
	own, foreign := k.cache.releaseOwned(w, resp)
	k.releases.add(own...)
	requested, rev, err := k.eachIf(ctx, foreign, func(lkey string) clientv3.Op {
		return clientv3.OpPut(lkey, revoked, clientv3.WithIgnoreLease())
	})
	if err != nil {
		return err
	}
	// The watch begins after the first revocation, since etcd serves one that begins earlier only within 100 ms.
	if len(own) > 0 {
		rev = resp.Header.Revision // the deletion of own keys may be executed before the revocations
	}
	return k.awaitDeletion(ctx, append(own, requested...), rev)
}

type write struct {
	spans []span
	// entries are the owned keys that the write may change. They are not served
	// while it is in flight.
	entries []*entry
}

// minRefresh is how many owned keys a write reads again at least; the maximum is
// the number of its guards, if larger. The server limits the operations of a
// transaction, 128 by default, and ownership of a wide range must not make a small
// write too large.
const minRefresh = 16

// refresh returns the reads that show the owned keys after the transaction's own
// writes. The operations alone do not show that: a put may keep the old value, or
// attach the key to a lease. A keys-only read does not either, because it omits
// leases.
func (w *write) refresh() []clientv3.Op {
	reads := make([]clientv3.Op, w.refreshes())
	for i := range reads {
		reads[i] = clientv3.OpGet(w.entries[i].key)
	}
	return reads
}

func (w *write) refreshes() int {
	return min(len(w.entries), max(minRefresh, len(w.spans)))
}

// refreshed returns the first entries' keys after the transaction.
func (w *write) refreshed(resp *clientv3.TxnResponse) []*mvccpb.KeyValue {
	reads := &clientv3.TxnResponse{Responses: optxn.At(resp, 1).GetResponseTxn().GetResponses()}
	items := make([]*mvccpb.KeyValue, len(reads.Responses))
	for i := range items {
		items[i] = optxn.Key(reads, i)
	}
	return items
}

// beginWrite begins a write. It must be ended by commit, abandon or releaseOwned.
func (c *cache) beginWrite(spans []span) *write {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &write{spans: slices.Clone(spans)}
	seen := map[*entry]bool{}
	for i := range w.spans {
		s := &w.spans[i]
		in := c.entriesInLocked(*s)
		if s.Single() {
			s.floor = 0
			for _, e := range in {
				s.floor = e.rev
			}
		}
		for _, e := range in {
			if !seen[e] {
				seen[e] = true
				e.writers++
				w.entries = append(w.entries, e)
			}
		}
	}
	return w
}

func (c *cache) entriesInLocked(s span) []*entry {
	if s.Single() {
		if e := c.entries[s.Key[len(c.prefix):]]; e != nil {
			return []*entry{e}
		}
		return nil
	}
	var in []*entry
	for key, e := range c.entries {
		if s.Contains(c.prefix + key) {
			in = append(in, e)
		}
	}
	return in
}

// conflictsWith reports whether the write's guards, which held, prove that the
// leasing key no longer exists: another client deleted it.
func (w *write) conflictsWith(l leasingKey) bool {
	return slices.ContainsFunc(w.spans, func(s span) bool { return s.Contains(l.name) && l.rev > s.floor })
}

// commit ends an executed write. items are the keys of its first entries afterwards;
// the other entries are released, as are keys that are now attached to a lease. It
// returns the leasing keys to release.
func (c *cache) commit(w *write, h *pb.ResponseHeader, items []*mvccpb.KeyValue) (release []leasingKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observeLocked(h)
	for i, e := range w.entries {
		e.writers--
		if c.entries[e.key] != e {
			continue
		}
		l := c.leasingKeyOf(e)
		if i >= len(items) || items[i] != nil && items[i].Lease != 0 || w.conflictsWith(l) {
			c.invalidateLocked(e.key, e.rev)
			release = append(release, l)
			continue
		}
		if h.GetRevision() >= e.at { // not overtaken by the response to a later write
			e.item, e.at = items[i], h.GetRevision()
		}
	}
	return release
}

// abandon ends a write with unknown outcome. It releases its entries and returns
// their leasing keys.
func (c *cache) abandon(w *write) (release []leasingKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range w.entries {
		e.writers--
		c.invalidateLocked(e.key, e.rev)
		release = append(release, c.leasingKeyOf(e))
	}
	return release
}

// releaseOwned ends a write that was blocked by the leasing keys in listed, span by
// span. It drops entries that are not owned any more, and returns the leasing keys to
// delete: this client's and those of others. For a range it sets floor to the highest
// create revision of the keys that may stay, unless an earlier one has to go: the guard
// must not hold before that is deleted.
func (c *cache) releaseOwned(w *write, listed *clientv3.TxnResponse) (own, foreign []leasingKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, gone := map[string]int64{}, map[string]bool{}
	for i := range w.spans {
		s := &w.spans[i]
		highest, lowest := int64(0), int64(math.MaxInt64) // of those that stay, of those to delete
		for _, l := range optxn.At(listed, i).GetResponseRange().GetKvs() {
			key, name := strings.TrimPrefix(string(l.Key), c.prefix), leasingKey{string(l.Key), l.CreateRevision}
			ours := c.session != nil && clientv3.LeaseID(l.Lease) == c.session.lease
			if ours && !s.exclusive && c.ownsLocked(key, l.CreateRevision) {
				kept[key] = l.CreateRevision
				highest = max(highest, l.CreateRevision)
				continue
			}
			lowest = min(lowest, l.CreateRevision)
			if gone[name.name] { // listed for another span, too
				continue
			}
			gone[name.name] = true
			c.invalidateLocked(key, l.CreateRevision)
			if ours {
				own = append(own, name)
			} else {
				foreign = append(foreign, name)
			}
		}
		if s.floor = highest; highest > lowest {
			s.floor = 0
		}
	}
	for _, e := range w.entries {
		e.writers--
		if kept[e.key] != e.rev {
			c.invalidateLocked(e.key, e.rev)
		}
	}
	return own, foreign
}

// span is the range of leasing keys of the keys that a write may change.
type span struct {
	semantics.Range
	// exclusive says that no leasing key may exist in the range, not even this
	// client's.
	exclusive bool
	// floor is the highest create revision of a leasing key in the range that lets
	// the write proceed.
	floor int64
}

// spansOf returns the spans of all writes in ops, including both branches of
// transactions.
func (k *kv) spansOf(ops ...clientv3.Op) []span {
	var spans []span
	seen := map[span]bool{}
	for _, op := range optxn.Writes(ops...) {
		if s := k.spanOf(op); !seen[s] {
			seen[s] = true
			spans = append(spans, s)
		}
	}
	return spans
}

func (k *kv) spanOf(op clientv3.Op) span {
	keys, all := semantics.Of(op.KeyBytes(), op.RangeBytes()), semantics.Range{Key: k.prefix, End: clientv3.GetPrefixRangeEnd(k.prefix)}
	switch {
	case !keys.Single() && keys.Overlaps(all):
		// It deletes leasing keys of any owner: all have to be released first.
		return span{Range: all, exclusive: true}
	case keys.End == "\x00":
		keys.End = all.End
	case !keys.Single():
		keys.End = k.leasingKey(keys.End)
	}
	keys.Key = k.leasingKey(keys.Key)
	return span{Range: keys}
}

// guard holds if the write may proceed. For a single leasing key it requires the
// owned incarnation, or none. For a range it requires that none was created after
// floor: earlier ones have been listed and are owned.
func (s span) guard() clientv3.Cmp {
	if s.Single() {
		return clientv3.Compare(clientv3.CreateRevision(s.Key), "=", s.floor)
	}
	return clientv3.Compare(clientv3.CreateRevision(s.Key).WithRange(s.End), "<", s.floor+1)
}

func (s span) list() clientv3.Op {
	if s.Single() {
		return clientv3.OpGet(s.Key)
	}
	return clientv3.OpGet(s.Key, clientv3.WithRange(s.End))
}
