package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/internal/channel"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// ChangeType is the type of a [Change].
type ChangeType int

const (
	// Put says that the key has the value, which is new to the loop.
	Put ChangeType = iota + 1
	// Deleted says that the key does not exist any more. There is no Value; ModRevision is that of the delete, or one at
	// which the key is gone.
	Deleted
	// Synced says that the list is complete: all that follow are later changes. It has no Key.
	Synced
)

// String returns "put", "deleted" or "synced", and "ChangeType(n)" for any other value.
func (t ChangeType) String() string {
	return cmp.Or(map[ChangeType]string{Put: "put", Deleted: "deleted", Synced: "synced"}[t], fmt.Sprintf("ChangeType(%d)", int(t)))
}

// Change is what [Store.Watch] yields.
type Change[T any] struct {
	Type ChangeType
	Entry[T]
}

const (
	// lastingWatch is how long a watch lasts that is made again at once when its revision is compacted.
	lastingWatch = time.Second
	// changedSpread spreads the clients of a cluster that was restored.
	changedSpread = time.Second
)

// listPauses are the pauses between lists when watches do not last, with full jitter.
var listPauses = retry.Policy{InitialBackoff: 100 * time.Millisecond, MaxBackoff: 10 * time.Second}

var (
	errNoWatcher   = errors.New("the KV has no Watch: make the Store of a *clientv3.Client, or with WithWatcher")
	errWatchOpts   = errors.New("a watch takes no other options than Prefix and Between of the Store")
	errWatchClosed = fmt.Errorf("the watch was closed: %w", context.Canceled)
	errStopped     = errors.New("the loop has ended")
)

// Watch yields the keys of the Store, or of the range that [Store.Prefix] or [Store.Between] select, as [Put]; then
// [Synced]; and then each change as it happens, in the order of the revisions, without loss or repetition. It goes on
// until the loop ends it, ctx ends, or the server refuses it.
//
// If changes are compacted before they are delivered, because the loop is slower than the changes, or if the cluster was
// restored or replaced, Watch lists the keys again. It then yields the differences: keys with another revision as Put,
// keys that are gone as Deleted, and Synced. Of several changes of a key it yields the last. For that it keeps the names
// of all keys, with their revisions, in memory, but not the values.
//
// For a value that cannot be decoded it yields an error ([ErrDecode]) with a Change without the Value,
// and goes on. Any other error is the last thing that it yields. Unless the loop ends it, the
// iteration ends with an error, for example that of ctx.
func (s *Store[T]) Watch(ctx context.Context, opts ...clientv3.OpOption) iter.Seq2[Change[T], error] {
	return func(yield func(Change[T], error) bool) {
		op, err := s.selected(opts)
		key := string(op.KeyBytes())
		keys := clientv3.OpGet(key, clientv3.WithRange(string(op.RangeBytes())))
		switch {
		case err != nil:
		case s.watcher == nil:
			err = errNoWatcher
		case !reflect.DeepEqual(op, keys):
			err = errWatchOpts
		default:
			w := &watch[T]{store: s, keys: keys, known: map[string]seen{}, yield: yield}
			err = w.run(ctx)
		}
		if !errors.Is(err, errStopped) {
			yield(Change[T]{}, s.failed("watch", key, err))
		}
	}
}

// watch is one loop over a Watch.
type watch[T any] struct {
	store *Store[T]
	keys  clientv3.Op // the get of the range
	known map[string]seen
	list  int // the number of the list
	yield func(Change[T], error) bool
}

// seen is the state of a key that the loop has.
type seen struct {
	rev  int64 // 0 if it belongs to another history
	list int   // the last one that had it
}

// run returns why the loop cannot go on.
func (w *watch[T]) run(ctx context.Context) error {
	for failures := 0; ; {
		began := time.Now()
		err := w.listAndFollow(ctx)
		if time.Since(began) >= lastingWatch {
			failures = 0
		}
		var changed *clientv3.ClusterChangedError
		var delay time.Duration
		switch {
		case errors.As(err, &changed), errors.Is(err, rpctypes.ErrFutureRev): // of a list, whose next page is of the restored store
			for key, s := range w.known {
				w.known[key] = seen{list: s.list}
			}
			delay = max(rand.N(changedSpread), listPauses.Delay(failures))
		case w.list > 1 && ctx.Err() == nil && retry.CodeOf(err) == codes.Unavailable && !channel.RequiresLeader(ctx):
			delay = listPauses.Delay(failures + 1)
		case !errors.Is(err, rpctypes.ErrCompacted):
			return err
		case failures > 0:
			delay = listPauses.Delay(failures)
		}
		failures++
		if err := pause.For(ctx, delay); err != nil {
			return err
		}
	}
}

func (w *watch[T]) listAndFollow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opened, err := w.sync(ctx)
	if err != nil {
		return err
	}
	for resp := range opened {
		for _, ev := range resp.Events {
			if err := w.apply(ev); err != nil {
				return err
			}
		}
		if err := resp.Err(); err != nil {
			return err
		}
	}
	return cmp.Or(ctx.Err(), errWatchClosed)
}

func (w *watch[T]) apply(ev *clientv3.Event) error {
	if ev.Type == clientv3.EventTypeDelete {
		return w.deleted(string(ev.Kv.Key), ev.Kv.ModRevision)
	}
	return w.put(ev.Kv)
}

// sync lists the keys, yields how they differ from what the loop has, and returns a watch that continues the list. It makes
// the watch before it yields: one that is made later does not notice that the cluster was restored since the list.
func (w *watch[T]) sync(ctx context.Context) (opened clientv3.WatchChan, err error) {
	w.list++
	var rev int64
	key, end := string(w.keys.KeyBytes()), string(w.keys.RangeBytes())
	for page, err := range clientv3.Pages(ctx, w.store.kv, key, optxn.As(w.keys)) {
		if err != nil {
			return nil, err
		}
		rev = page.Header.GetRevision()
		if opened == nil {
			opened = w.store.watcher.Watch(ctx, key, clientv3.WithRange(end), clientv3.WithRev(rev+1))
		}
		for _, kv := range page.Kvs {
			if err := w.put(kv); err != nil {
				return nil, err
			}
		}
	}
	var gone []string
	for key, s := range w.known {
		if s.list != w.list {
			gone = append(gone, key)
		}
	}
	slices.Sort(gone)
	for _, key := range gone {
		if err := w.deleted(key, rev); err != nil {
			return nil, err
		}
	}
	return opened, w.give(Change[T]{Type: Synced}, nil)
}

// put yields a key, unless the loop has it.
func (w *watch[T]) put(kv *mvccpb.KeyValue) error {
	had := w.known[string(kv.Key)]
	w.known[string(kv.Key)] = seen{rev: kv.ModRevision, list: w.list}
	if had.rev == kv.ModRevision {
		return nil
	}
	e, err := w.store.entry("watch", kv)
	return w.give(Change[T]{Type: Put, Entry: e}, err)
}

func (w *watch[T]) deleted(key string, rev int64) error {
	delete(w.known, key)
	return w.give(Change[T]{Type: Deleted, Entry: Entry[T]{Key: strings.TrimPrefix(key, w.store.prefix), ModRevision: rev}}, nil)
}

func (w *watch[T]) give(c Change[T], err error) error {
	if !w.yield(c, err) {
		return errStopped
	}
	return nil
}
