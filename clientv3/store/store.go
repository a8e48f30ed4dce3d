package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/retry"
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

var (
	// ErrNotFound says that there is no such key.
	ErrNotFound = errors.New("the key does not exist")
	// ErrExists is the error of [Store.Create] for a key that is there.
	ErrExists = errors.New("the key exists")
	// ErrModified is the error of [Store.DeleteUnmodified] for a key that was written or deleted since it was read.
	ErrModified = errors.New("the key was modified")
	// ErrDecode says that the codec cannot decode the value of a key.
	ErrDecode = errors.New("the value cannot be decoded")
)

// Error is the error of an operation of a [Store].
type Error struct {
	// Op is the operation: "get", "update", "watch", …
	Op string
	// Key is the key with the prefix of the Store; for a list or a watch that ended, it is the first key of the range.
	Key string
	// Codec is the name of the codec.
	Codec string
	// Err is the cause.
	Err error
}

// Error returns the operation, the key, the codec and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("store: %s %q (%s): %v", e.Op, e.Key, e.Codec, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func (s *Store[T]) failed(op, key string, err error) error {
	return &Error{Op: op, Key: key, Codec: s.codec.Name(), Err: err}
}

// refused is failed for what was certainly not written.
func (s *Store[T]) refused(op, key string, err error) error {
	return s.failed(op, key, &retry.NotSentError{Err: err})
}

// Codec encodes and decodes values of type T. It must be safe for concurrent use.
type Codec[T any] interface {
	// Name returns the name of the codec in errors.
	Name() string
	// Encode returns the bytes that are stored for a value.
	Encode(value T) ([]byte, error)
	// Decode returns the value of what Encode returned. It must not keep data.
	Decode(data []byte) (T, error)
}

// codec is a Codec of two functions.
type codec[T any] struct {
	name   string
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error)
}

func (c codec[T]) Name() string                   { return c.name }
func (c codec[T]) Encode(value T) ([]byte, error) { return c.encode(value) }
func (c codec[T]) Decode(data []byte) (T, error)  { return c.decode(data) }

// JSON returns the codec "json", that of package encoding/json.
func JSON[T any]() Codec[T] {
	return codec[T]{
		name:   "json",
		encode: func(value T) ([]byte, error) { return json.Marshal(value) },
		decode: func(data []byte) (value T, err error) {
			err = json.Unmarshal(data, &value)
			return value, err
		},
	}
}

// Proto returns the codec "protobuf", for a pointer to a generated message. The binary form is deterministic for one
// version of the program.
func Proto[T proto.Message]() Codec[T] {
	return codec[T]{
		name:   "protobuf",
		encode: func(value T) ([]byte, error) { return proto.MarshalOptions{Deterministic: true}.Marshal(value) },
		decode: func(data []byte) (T, error) {
			var none T
			value := none.ProtoReflect().New().Interface().(T)
			return value, proto.Unmarshal(data, value)
		},
	}
}

// Bytes returns the codec "bytes": values as they are stored.
func Bytes() Codec[[]byte] {
	return codec[[]byte]{
		name:   "bytes",
		encode: func(value []byte) ([]byte, error) { return value, nil },
		decode: func(data []byte) ([]byte, error) { return append([]byte{}, data...), nil },
	}
}

// Prefix returns the option for [Store.All] and [Store.Watch] that selects the keys that begin with prefix.
func (s *Store[T]) Prefix(prefix string) clientv3.OpOption {
	prefix = s.prefix + prefix
	return selecting(prefix, clientv3.GetPrefixRangeEnd(prefix))
}

// Between returns the option for [Store.All] and [Store.Watch] that selects the keys from from on that are before end, or
// all from from on if end is empty.
func (s *Store[T]) Between(from, end string) clientv3.OpOption {
	if end == "" {
		return selecting(s.prefix+from, clientv3.GetPrefixRangeEnd(s.prefix))
	}
	return selecting(s.prefix+from, s.prefix+end)
}

func selecting(key, end string) clientv3.OpOption {
	return func(op *clientv3.Op) {
		op.WithKeyBytes([]byte(cmp.Or(key, "\x00"))) // the first key that there can be
		op.WithRangeBytes([]byte(end))
	}
}

var errOutside = errors.New("the options select keys outside of the prefix: use Prefix and Between of the Store")

// selected returns the get of a range; without options, of all keys.
func (s *Store[T]) selected(opts []clientv3.OpOption) (clientv3.Op, error) {
	op := clientv3.OpGet(s.prefix, append([]clientv3.OpOption{s.Prefix("")}, opts...)...)
	key, end, last := string(op.KeyBytes()), string(op.RangeBytes()), clientv3.GetPrefixRangeEnd(s.prefix)
	switch {
	case op.IsKeysOnly() || op.IsCountOnly():
		return op, errNotAValue
	case !strings.HasPrefix(key, s.prefix), last != "\x00" && (end == "\x00" || end > last):
		return op, errOutside
	}
	return op, nil
}

// All yields the keys of the Store, or of the range that [Store.Prefix] or [Store.Between] select, in the order of the keys,
// all at one revision; see clientv3.Pages for how they are read. Other options are those of a get, such as
// clientv3.WithSerializable, WithRev and WithLimit.
//
// For a value that cannot be decoded it yields an error ([ErrDecode]) with the rest of the Entry, and goes on. Any other
// error is the last that it yields: without one, the range is complete.
func (s *Store[T]) All(ctx context.Context, opts ...clientv3.OpOption) iter.Seq2[Entry[T], error] {
	return func(yield func(Entry[T], error) bool) {
		op, err := s.selected(opts)
		key := string(op.KeyBytes())
		if err != nil {
			yield(Entry[T]{}, s.failed("list", key, err))
			return
		}
		for kv, err := range clientv3.Range(ctx, s.kv, key, optxn.As(op)) {
			if err != nil {
				yield(Entry[T]{}, s.failed("list", key, err))
				return
			}
			if !yield(s.entry("list", kv)) {
				return
			}
		}
	}
}
