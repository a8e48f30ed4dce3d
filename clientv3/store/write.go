package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/staleness"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// pauses are the pauses between attempts of a conditional write, after a conflict or a lost answer, with full jitter.
var pauses = retry.Policy{}

var errNotRead = errors.New("the Entry has no ModRevision: it must be one that was read")

// Create writes a key that does not exist, and returns the revision. If it exists, the error is [ErrExists]. The options are
// those of a put, such as clientv3.WithLease.
func (s *Store[T]) Create(ctx context.Context, key string, value T, opts ...clientv3.OpOption) (int64, error) {
	op, err := s.put("create", key, value, opts)
	if err != nil {
		return 0, err
	}
	r, err := s.execute(ctx, guarded{op: op, before: new(mvccpb.KeyValue)})
	switch {
	case err != nil:
		return 0, s.failed("create", s.prefix+key, err)
	case r.unsure != nil:
		return 0, s.failed("create", s.prefix+key, unknown(ErrExists, r.unsure))
	case !r.written:
		return 0, s.refused("create", s.prefix+key, ErrExists)
	}
	return r.revision, nil
}

// Update replaces the value of a key by what change returns for it, and returns the key as it was written. If another
// client writes the key meanwhile, change is called again with the new value, after a random pause that grows from 10 ms to
// 1 s, until the update is done or ctx ends. If change returns an error, nothing is written, and Update returns it. If the
// encoded value is the same, nothing is written either. If there is no such key, the error is [ErrNotFound].
//
// The key stays attached to its lease, unless the options, which are those of a put, have another one.
func (s *Store[T]) Update(ctx context.Context, key string, change func(T) (T, error), opts ...clientv3.OpOption) (Entry[T], error) {
	return s.update(ctx, key, change, false, opts)
}

// CreateOrUpdate is Update, but if the key does not exist, it calls change with the zero value of T and creates the key.
func (s *Store[T]) CreateOrUpdate(ctx context.Context, key string, change func(T) (T, error), opts ...clientv3.OpOption) (Entry[T], error) {
	return s.update(ctx, key, change, true, opts)
}

func (s *Store[T]) update(ctx context.Context, key string, change func(T) (T, error), create bool, opts []clientv3.OpOption) (Entry[T], error) {
	for conflicts := 1; ; conflicts++ {
		kv, err := s.read(ctx, key)
		if create && errors.Is(err, ErrNotFound) {
			kv, err = &mvccpb.KeyValue{Key: []byte(s.prefix + key)}, nil
		}
		if err != nil {
			return Entry[T]{}, s.refused("update", s.prefix+key, err)
		}
		if e, done, err := s.replace(ctx, kv, change, opts); err != nil || done {
			return e, err
		}
		if err := pause.For(ctx, pauses.Delay(conflicts)); err != nil {
			return Entry[T]{}, s.refused("update", s.prefix+key, err)
		}
		ctx, _ = staleness.Linearizable(ctx) //nolint:fatcontext // once; what it has read may have been stale
	}
}

// replace tries to update a key that was read, and reports whether that is done.
func (s *Store[T]) replace(ctx context.Context, kv *mvccpb.KeyValue, change func(T) (T, error), opts []clientv3.OpOption) (e Entry[T], done bool, err error) {
	e, exists := Entry[T]{Key: strings.TrimPrefix(string(kv.Key), s.prefix)}, kv.ModRevision != 0
	if exists {
		if e, err = s.entry("update", kv); err != nil {
			return e, false, s.refused("update", string(kv.Key), errors.Unwrap(err))
		}
	}
	if e.Value, err = change(e.Value); err != nil {
		return e, false, s.refused("update", string(kv.Key), err)
	}
	op, err := s.put("update", e.Key, e.Value, append([]clientv3.OpOption{clientv3.WithLease(e.Lease)}, opts...))
	if err != nil {
		return e, false, err
	}
	if exists && len(opts) == 0 && bytes.Equal(kv.Value, op.ValueBytes()) {
		done, err = s.unchanged(ctx, kv)
		return e, done, err
	}
	r, err := s.execute(ctx, guarded{op: op, before: kv})
	switch {
	case err != nil:
		return e, false, s.failed("update", string(kv.Key), err)
	case r.unsure != nil:
		return e, false, s.failed("update", string(kv.Key), unknown(ErrExists, r.unsure))
	}
	e.ModRevision, e.Version, e.Lease = r.revision, e.Version+1, op.LeaseID()
	e.CreateRevision = cmp.Or(e.CreateRevision, r.revision)
	return e, r.written, nil
}

// unchanged reports whether a key is as an update has read it.
func (s *Store[T]) unchanged(ctx context.Context, kv *mvccpb.KeyValue) (bool, error) {
	ctx, stale := staleness.Linearizable(ctx)
	if !stale {
		return true, nil
	}
	now, err := s.read(ctx, strings.TrimPrefix(string(kv.Key), s.prefix))
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false, s.refused("update", string(kv.Key), err)
	}
	return now.GetModRevision() == kv.ModRevision, nil
}

// DeleteUnmodified deletes a key that was read or written, if it has not been written or deleted since. Otherwise the
// error is [ErrModified].
func (s *Store[T]) DeleteUnmodified(ctx context.Context, e Entry[T]) error {
	key := s.prefix + e.Key
	if e.ModRevision == 0 {
		return s.refused("delete", key, errNotRead)
	}
	before := &mvccpb.KeyValue{CreateRevision: e.CreateRevision, ModRevision: e.ModRevision, Version: e.Version}
	r, err := s.execute(ctx, guarded{op: clientv3.OpDelete(key), before: before})
	switch {
	case err != nil:
		return s.failed("delete", key, err)
	case !r.written:
		return s.refused("delete", key, ErrModified)
	}
	return nil
}
