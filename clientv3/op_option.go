package clientv3

// OpOption sets a property of an operation. It is called once for each operation.
type OpOption func(*Op)

// IsOptsWithPrefix reports whether [WithPrefix] is among the options.
func IsOptsWithPrefix(opts []OpOption) bool {
	op := NewOp()
	op.apply(opts)
	return op.isOptsWithPrefix
}

// IsOptsWithFromKey reports whether [WithFromKey] is among the options.
func IsOptsWithFromKey(opts []OpOption) bool {
	op := NewOp()
	op.apply(opts)
	return op.isOptsWithFromKey
}

// WithPrefix makes a get, delete or watch cover every key that begins with the
// given key; an empty key means all keys.
func WithPrefix() OpOption {
	return func(op *Op) {
		op.isOptsWithPrefix = true
		if len(op.key) == 0 {
			op.key, op.end = []byte{0}, fromKeyEnd()
			return
		}
		op.end = prefixEnd(op.key)
	}
}

// WithRange makes a get, delete or watch cover the keys in [key, endKey). endKey
// must be lexically greater than the key, otherwise the range is empty.
func WithRange(endKey string) OpOption {
	return func(op *Op) { op.end = []byte(endKey) }
}

// WithFromKey makes a get, delete or watch cover every key that is lexically equal
// to or greater than the given key.
func WithFromKey() OpOption {
	return func(op *Op) {
		op.isOptsWithFromKey = true
		if len(op.key) == 0 {
			op.key = []byte{0}
		}
		op.end = fromKeyEnd()
	}
}

// WithRev makes a get read at the given revision, or a watch start with it. 0 means
// the latest. A get at a compacted revision fails with rpctypes.ErrCompacted, at a
// future one with rpctypes.ErrFutureRev.
func WithRev(rev int64) OpOption { return func(op *Op) { op.rev = rev } }

// WithPrevKV makes a put, delete or watch return each key as it was before the
// change. It is nil if that revision is compacted.
func WithPrevKV() OpOption { return func(op *Op) { op.prevKV = true } }
