package clientv3

// OpOption sets a property of an operation. It is called once for each operation
// that it is given to.
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
// key given: all keys, if it is empty.
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
// to or greater than the key given.
func WithFromKey() OpOption {
	return func(op *Op) {
		op.isOptsWithFromKey = true
		if len(op.key) == 0 {
			op.key = []byte{0}
		}
		op.end = fromKeyEnd()
	}
}

// WithRev makes a get read the store as it was at the given revision, or a watch
// start with it. 0 stands for the latest. A compacted revision gives
// rpctypes.ErrCompacted, one that is yet to come rpctypes.ErrFutureRev.
func WithRev(rev int64) OpOption { return func(op *Op) { op.rev = rev } }

// WithPrevKV makes a put or delete return, or a watch deliver, each key as it was
// before the change. It is missing where that revision is compacted.
func WithPrevKV() OpOption { return func(op *Op) { op.prevKV = true } }
