package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
)

// Store has the keys below a prefix as values of type T. It is made by [New], and safe for concurrent use.
type Store[T any] struct {
	kv      clientv3.KV
	watcher clientv3.Watcher // nil if there is none
	prefix  string
	codec   Codec[T]
}

// Entry is a key with its value. A value belongs to the caller.
type Entry[T any] struct {
	// Key is the key without the prefix of the Store.
	Key   string
	Value T
	// CreateRevision, ModRevision and Version are those of the key.
	CreateRevision, ModRevision, Version int64
	// Lease is the one that the key is attached to, 0 for none.
	Lease clientv3.LeaseID
}

// Option is an option of [New].
type Option func(*options)

type options struct{ watcher clientv3.Watcher }

// WithWatcher sets what [Store.Watch] watches through. It must have the same keys as the KV: for one of
// namespace.NewKV, a namespace.NewWatcher of that prefix.
func WithWatcher(w clientv3.Watcher) Option { return func(o *options) { o.watcher = w } }

// New returns the Store of the keys that begin with prefix, over kv. If kv is a *clientv3.Client, or another
// clientv3.Watcher, [Store.Watch] uses it; otherwise Watch needs [WithWatcher]. A prefix usually ends with "/": "app" has
// the keys of "app2", too.
func New[T any](kv clientv3.KV, prefix string, codec Codec[T], opts ...Option) *Store[T] {
	var o options
	o.watcher, _ = kv.(clientv3.Watcher)
	for _, opt := range opts {
		opt(&o)
	}
	return &Store[T]{kv: kv, watcher: o.watcher, prefix: prefix, codec: codec}
}

var errNotAValue = errors.New("the options ask for a range, for keys or for a count: use All, or the KV")

// Get returns a key, or [ErrNotFound]. The options are those of a get of one key with its value, such as
// clientv3.WithSerializable and WithRev. If the value cannot be decoded ([ErrDecode]), the rest of the Entry is set, so
// that it can be deleted.
func (s *Store[T]) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (Entry[T], error) {
	kv, err := s.read(ctx, key, opts...)
	if err != nil {
		return Entry[T]{}, s.failed("get", s.prefix+key, err)
	}
	return s.entry("get", kv)
}

// read reads a key. Its errors are bare.
func (s *Store[T]) read(ctx context.Context, key string, opts ...clientv3.OpOption) (*mvccpb.KeyValue, error) {
	get := clientv3.OpGet(s.prefix+key, opts...)
	if len(get.RangeBytes()) > 0 || get.IsKeysOnly() || get.IsCountOnly() {
		return nil, errNotAValue
	}
	resp, err := s.kv.Do(ctx, get)
	switch {
	case err != nil:
		return nil, err
	case len(resp.Get().Kvs) == 0:
		return nil, ErrNotFound
	}
	return resp.Get().Kvs[0], nil
}

// entry decodes a key that was read by an operation.
func (s *Store[T]) entry(op string, kv *mvccpb.KeyValue) (Entry[T], error) {
	value, err := s.decode(op, string(kv.Key), kv.Value)
	return Entry[T]{
		Key: strings.TrimPrefix(string(kv.Key), s.prefix), Value: value, CreateRevision: kv.CreateRevision,
		ModRevision: kv.ModRevision, Version: kv.Version, Lease: clientv3.LeaseID(kv.Lease),
	}, err
}

func (s *Store[T]) decode(op, key string, data []byte) (T, error) {
	value, err := s.codec.Decode(data)
	if err != nil {
		var none T
		return none, s.failed(op, key, fmt.Errorf("%w: %w", ErrDecode, err))
	}
	return value, nil
}

// Put writes a key, whatever it has been, and returns the revision. The options are those of a put, such as
// clientv3.WithLease.
func (s *Store[T]) Put(ctx context.Context, key string, value T, opts ...clientv3.OpOption) (int64, error) {
	op, err := s.put("put", key, value, opts)
	if err != nil {
		return 0, err
	}
	resp, err := s.kv.Do(ctx, op)
	if err != nil {
		return 0, s.failed("put", s.prefix+key, err)
	}
	return resp.Put().Header.GetRevision(), nil
}

// put returns the put of a value by an operation.
func (s *Store[T]) put(op, key string, value T, opts []clientv3.OpOption) (clientv3.Op, error) {
	data, err := s.codec.Encode(value)
	if err != nil {
		return clientv3.Op{}, s.refused(op, s.prefix+key, fmt.Errorf("the value cannot be encoded: %w", err))
	}
	return clientv3.OpPut(s.prefix+key, string(data), opts...), nil
}

// Delete deletes a key, whatever it has been, and reports whether it was there.
func (s *Store[T]) Delete(ctx context.Context, key string) (bool, error) {
	resp, err := s.kv.Delete(ctx, s.prefix+key)
	if err != nil {
		return false, s.failed("delete", s.prefix+key, err)
	}
	return resp.Deleted > 0, nil
}
