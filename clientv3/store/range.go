package store

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
)

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
