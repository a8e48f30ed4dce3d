package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/btree"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

const (
	// maxTxnOps is etcd's default bound for the operations of a transaction, and changedBytes
	// about the size of its response when what has changed is read.
	maxTxnOps    = 128
	changedBytes = 2 << 20

	// changedSpread spreads the clients of a cluster that was restored, overflowPause those whose
	// prefix does not fit; twice as long at most.
	changedSpread = time.Second
	overflowPause = 5 * time.Minute

	// lastingWatch is how long a watch lasts that is made again at once when it ends.
	lastingWatch = time.Second
)

// pauses are those between attempts to load or to watch, with full jitter.
var pauses = retry.Policy{InitialBackoff: 100 * time.Millisecond, MaxBackoff: 10 * time.Second}

// run loads and follows the prefix until the cache ends.
func (v *view) run() {
	failures, compacted := 0, false
	for v.c.ctx.Err() == nil {
		lasted, err := v.loadAndFollow(compacted)
		if v.c.ctx.Err() != nil {
			return
		}
		lasting := lastingWatch
		if _, changed := errors.AsType[*clientv3.ClusterChangedError](err); changed {
			lasting = pauses.MaxBackoff // the next load is a whole one, and an endpoint may belong to another cluster
		}
		if lasted >= lasting {
			failures = 0
		}
		failures++
		compacted = errors.Is(err, rpctypes.ErrCompacted)
		_ = pause.For(v.c.ctx, v.after(err, failures)) // the loop sees that it has ended
	}
}

// loadAndFollow brings the prefix up to date and follows it until that fails. It returns how long the watch has lasted.
func (v *view) loadAndFollow(compacted bool) (lasted time.Duration, err error) {
	ctx, stop := context.WithCancelCause(v.c.ctx)
	defer stop(nil)
	v.mu.Lock()
	v.dropped, v.stop = nil, stop
	v.mu.Unlock()
	switch s := v.snap.Load(); {
	case s == nil:
		v.setVersionDoubt(errVersionUnknown)
		err = v.load(ctx, nil)
	case compacted:
		err = v.delta(ctx, s)
	}
	if err == nil {
		lasted, err = v.follow(ctx)
	}
	v.setWatchDoubt(errNotWatched)
	if cause := context.Cause(ctx); cause != nil && v.c.ctx.Err() == nil {
		err = cause
	}
	return lasted, err
}

// after decides what follows the end of a watch or a load that failed, and returns how long to wait.
func (v *view) after(err error, failures int) time.Duration {
	_, changed := errors.AsType[*clientv3.ClusterChangedError](err)
	_, overflow := errors.AsType[*OverflowError](err)
	first := failures == 1
	v.mu.Lock()
	v.err = err
	v.notifyLocked()
	held := v.snap.Load() != nil || v.dropped != nil
	v.mu.Unlock()
	switch {
	case changed:
		v.discard(err)
		return max(rand.N(changedSpread), pauses.Delay(failures))
	case overflow:
		v.discard(err)
		return overflowPause + rand.N(overflowPause)
	case errors.Is(err, rpctypes.ErrPermissionDenied) && held:
		v.discard(err)
	case first && (errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, errUnavailable)):
		return 0
	case first:
		v.c.client.GetLogger().Warn("a cached prefix is not followed; it is tried again",
			zap.String("prefix", v.prefix), zap.Error(err))
	}
	return pauses.Delay(failures)
}

// discard drops the snapshot, logs that, and calls OnDrop.
func (v *view) discard(cause error) {
	v.drop(cause)
	v.c.client.GetLogger().Warn("a cached prefix was dropped; it is read from the server until it is loaded again",
		zap.String("prefix", v.prefix), zap.Error(cause))
	if v.c.cfg.OnDrop != nil {
		v.c.cfg.OnDrop(v.prefix, cause)
	}
}

// list reads the prefix at one revision, and returns the header with that revision.
func (v *view) list(ctx context.Context, each func(*mvccpb.KeyValue) error, opts ...clientv3.OpOption) (header *pb.ResponseHeader, err error) {
	opts = append(opts, clientv3.WithRange(v.keys.End))
	for page, err := range clientv3.Pages(ctx, v.c.plain, v.keys.Key, opts...) {
		if err != nil {
			return nil, err
		}
		header = page.Header
		for _, kv := range page.Kvs {
			if err := each(kv); err != nil {
				return nil, err
			}
		}
	}
	return header, nil
}

// load reads the whole prefix. The snapshot before it, if any, is replaced.
func (v *view) load(ctx context.Context, before *snapshot) error {
	began := time.Now()
	next := &snapshot{tree: btree.NewG(32, func(a, b item) bool { return a.key < b.key })}
	if before != nil {
		v.c.bytes.Add(-before.bytes) // until it is replaced, or the load has failed
	}
	header, err := v.list(ctx, func(kv *mvccpb.KeyValue) error {
		it := item{string(kv.Key), kv}
		if err := v.reserve(it.bytes()); err != nil {
			return err
		}
		next.tree.ReplaceOrInsert(it)
		next.bytes += it.bytes()
		return nil
	})
	if err != nil {
		v.release(before, next)
		return err
	}
	next.rev, next.header = header.GetRevision(), header
	next.history = v.historyOf(before, header)
	v.c.stats.loads.Add(1)
	resync := &Resynced{Prefix: v.prefix, Revision: next.rev, Full: true, Changed: next.tree.Len()}
	return v.replace(ctx, before, next, began, resync)
}

// historyOf returns the number of the history that a list belongs to: the history of the last snapshot only if the header
// proves that.
func (v *view) historyOf(before *snapshot, h *pb.ResponseHeader) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	last := v.last
	if before != nil {
		last = pointOf(before)
	}
	if last.Cluster == 0 || h.GetClusterId() == 0 || lineage.Compare(last, h, true) != nil {
		v.history++
	}
	return v.history
}

// reserve counts what the prefix grows by, and fails if it has outgrown the cache. So prefixes that load at the same time
// are within MaxBytes together.
func (v *view) reserve(bytes int64) error {
	if total := v.c.bytes.Add(bytes); bytes > 0 && total > v.c.cfg.MaxBytes {
		v.c.bytes.Add(-bytes)
		return &OverflowError{Prefix: v.prefix, MaxBytes: v.c.cfg.MaxBytes}
	}
	return nil
}

// release frees the bytes that were reserved for a snapshot that is not published.
func (v *view) release(before, next *snapshot) {
	v.c.bytes.Add(-next.bytes)
	if before != nil {
		v.c.bytes.Add(before.bytes)
	}
}

// replace publishes what was read since a time.
func (v *view) replace(ctx context.Context, before, next *snapshot, began time.Time, resync *Resynced) error {
	ch := change{next: next, first: next.rev, resync: resync}
	if before != nil {
		ch.first, ch.replaced = before.rev+1, before.bytes
	}
	if !v.publish(ch) {
		v.release(before, next)
		return context.Cause(ctx)
	}
	v.prove(&round{sent: began, header: next.header})
	select {
	case <-v.loaded:
		if v.c.cfg.OnResync != nil {
			v.c.cfg.OnResync(*resync)
		}
	default:
		close(v.loaded)
	}
	return nil
}

// delta brings a snapshot up to date after its next revisions were compacted. It reads the keys
// with their revisions, and of the values only those that have changed: an equal modification
// revision means an equal value, in one history.
func (v *view) delta(ctx context.Context, before *snapshot) error {
	began := time.Now()
	next := &snapshot{tree: before.tree.Clone(), bytes: before.bytes, history: before.history}
	var names []item
	header, err := v.list(ctx, func(kv *mvccpb.KeyValue) error {
		names = append(names, item{string(kv.Key), kv})
		return nil
	}, clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	if c := lineage.Compare(pointOf(before), header, true); c != nil {
		return (*clientv3.ClusterChangedError)(c)
	}
	gone, changed := compare(before.tree, names)
	if len(changed) > len(names)/2 {
		return v.load(ctx, before)
	}
	for _, key := range gone {
		it, _ := next.tree.Delete(item{key: key})
		next.bytes -= it.bytes()
	}
	next.rev, next.header = header.GetRevision(), header
	switch err := v.fetch(ctx, next, changed); {
	case errors.Is(err, rpctypes.ErrTooManyOps):
		return v.load(ctx, before)
	case err != nil:
		return err
	}
	if err := v.reserve(next.bytes - before.bytes); err != nil {
		return err
	}
	v.c.stats.resyncs.Add(1)
	return v.replace(ctx, before, next, began,
		&Resynced{Prefix: v.prefix, Revision: next.rev, Changed: len(changed), Removed: len(gone)})
}

// compare returns the keys of a tree that are not in a sorted list, and those of the list whose
// revision is another one.
func compare(t *tree, names []item) (gone, changed []string) {
	for _, n := range names {
		if it, ok := t.Get(n); !ok || it.kv.ModRevision != n.kv.ModRevision {
			changed = append(changed, n.key)
		}
	}
	t.Ascend(func(it item) bool {
		_, found := slices.BinarySearchFunc(names, it.key, func(n item, key string) int { return strings.Compare(n.key, key) })
		if !found {
			gone = append(gone, it.key)
		}
		return true
	})
	return gone, changed
}

// fetch reads keys at the revision of a snapshot into it.
func (v *view) fetch(ctx context.Context, into *snapshot, keys []string) error {
	average := into.bytes/int64(into.tree.Len()+1) + 1
	for part := range slices.Chunk(keys, int(min(max(changedBytes/average, 1), maxTxnOps))) {
		ops := make([]clientv3.Op, 0, len(part))
		for _, key := range part {
			ops = append(ops, clientv3.OpGet(key, clientv3.WithRev(into.rev)))
		}
		resp, err := v.c.plain.Txn(ctx).Then(ops...).Commit()
		if err != nil {
			return err
		}
		for _, r := range resp.Responses {
			for _, kv := range r.GetResponseRange().GetKvs() {
				into.bytes += set(into.tree, kv)
			}
		}
	}
	return nil
}

// set puts a key into a tree and returns the bytes that it adds.
func set(t *tree, kv *mvccpb.KeyValue) int64 {
	it := item{string(kv.Key), kv}
	old, ok := t.ReplaceOrInsert(it)
	if !ok {
		return it.bytes()
	}
	return it.bytes() - old.bytes()
}

// follow applies the events of a watch that starts at the snapshot, whose revision comes again: etcd answers no progress request of a
// stream while one of its watches starts at a revision that the store has not reached. It returns how long the watch was open.
func (v *view) follow(ctx context.Context) (lasted time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	s := v.snap.Load()
	if s == nil {
		return 0, errUnavailable
	}
	responses := v.c.watcher.Watch(v.c.streamContext(ctx), v.prefix, clientv3.WithPrefix(), clientv3.WithRev(s.rev), clientv3.WithCreatedNotify(), clientv3.WithProgressNotify())
	opened := time.Now()
	err = v.applyAll(responses, sync.OnceFunc(func() { asking.Go(func() { v.followVersion(ctx) }) }))
	return time.Since(opened), err
}

// applyAll applies what a watch delivers, calls isOpen once it is open, and returns why it ended.
func (v *view) applyAll(responses clientv3.WatchChan, isOpen func()) error {
	for resp := range responses {
		if err := resp.Err(); err != nil {
			v.window.compactedAt(resp.CompactRevision)
			return err
		}
		progress := resp.IsProgressNotify()
		if progress || resp.Created {
			isOpen()
			var doubt error
			if !resp.IsProven() {
				doubt = errUnproven
			}
			v.setWatchDoubt(doubt)
		}
		switch {
		case len(resp.Events) > 0:
			if err := v.apply(&resp); err != nil {
				return err
			}
		case progress && v.proven.Load():
			v.advance(resp.Header)
		}
		if progress || resp.Created {
			v.window.notify(resp)
		}
	}
	return errUnavailable
}

func (v *view) apply(resp *clientv3.WatchResponse) error {
	s := v.snap.Load()
	if s == nil {
		return errUnavailable
	}
	for len(resp.Events) > 0 && resp.Events[0].Kv.ModRevision <= s.rev {
		resp.Events = resp.Events[1:]
	}
	if len(resp.Events) == 0 {
		return nil
	}
	v.c.stats.events.Add(int64(len(resp.Events)))
	next := &snapshot{tree: s.tree.Clone(), rev: s.rev, bytes: s.bytes, header: resp.Header, history: s.history}
	ch := change{next: next, first: resp.Events[0].Kv.ModRevision, keys: make([]string, 0, len(resp.Events)), events: make([]*event, 0, len(resp.Events))}
	for _, ev := range resp.Events {
		it := item{string(ev.Kv.Key), ev.Kv}
		var old item
		var had bool
		if ev.Type == clientv3.EventTypeDelete {
			old, had = next.tree.Delete(it)
		} else {
			old, had = next.tree.ReplaceOrInsert(it)
			next.bytes += it.bytes()
		}
		if had {
			next.bytes -= old.bytes()
			ch.replaced += old.bytes()
		}
		ch.keys = append(ch.keys, it.key)
		ch.events = append(ch.events, &event{ev: ev, prev: old.kv})
		next.rev = max(next.rev, ev.Kv.ModRevision)
	}
	ch.replaced += min(keyNodes*int64(next.tree.Len()), copiedNodes*int64(len(resp.Events)))
	if err := v.reserve(next.bytes - s.bytes); err != nil {
		return err
	}
	if !v.publish(ch) {
		v.release(s, next)
		return errUnavailable
	}
	return nil
}
