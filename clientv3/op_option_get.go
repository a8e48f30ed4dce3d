package clientv3

// WithLimit bounds the number of keys that a get returns. 0 means no bound.
func WithLimit(n int64) OpOption { return func(op *Op) { op.limit = n } }

// WithSort makes a get return its keys in the order of target. Ascending by key is
// how the store returns them anyway; asking the server to sort would make it read
// the whole range whatever the limit, so SortByKey with SortAscend is sent as
// SortNone.
func WithSort(target SortTarget, order SortOrder) OpOption {
	return func(op *Op) {
		sort := SortOption{Target: target, Order: order}
		if target == SortByKey && order == SortAscend {
			sort.Order = SortNone
		}
		op.sort = &sort
	}
}

// WithSerializable makes a get, or a member list, answer from the state of
// whichever member is asked. It costs no agreement with the other members, works
// without a leader, and may be stale by any amount. The default is linearizable.
func WithSerializable() OpOption { return func(op *Op) { op.serializable = true } }

// WithKeysOnly makes a get return keys without their values.
func WithKeysOnly() OpOption { return func(op *Op) { op.keysOnly = true } }

// WithCountOnly makes a get return the number of keys and nothing else.
func WithCountOnly() OpOption { return func(op *Op) { op.countOnly = true } }

// WithMinModRev leaves out of a get the keys last written before the given
// revision.
func WithMinModRev(rev int64) OpOption { return func(op *Op) { op.minModRev = rev } }

// WithMaxModRev leaves out of a get the keys last written after the given
// revision.
func WithMaxModRev(rev int64) OpOption { return func(op *Op) { op.maxModRev = rev } }

// WithMinCreateRev leaves out of a get the keys created before the given revision.
func WithMinCreateRev(rev int64) OpOption { return func(op *Op) { op.minCreateRev = rev } }

// WithMaxCreateRev leaves out of a get the keys created after the given revision.
func WithMaxCreateRev(rev int64) OpOption { return func(op *Op) { op.maxCreateRev = rev } }

// WithPageFallback makes [KV.GetStream] read the range page by page, at one revision,
// from a server that has no RangeStream method (etcd before 3.7, the gRPC proxy).
// Without it such a server's codes.Unimplemented ends the stream. It does nothing for
// a sort order other than by key and for filters by revision, which no server streams.
func WithPageFallback() OpOption { return func(op *Op) { op.pageFallback = true } }

// WithFirstCreate gets the key with the prefix given that was created first.
func WithFirstCreate() []OpOption { return withTop(SortByCreateRevision, SortAscend) }

// WithLastCreate gets the key with the prefix given that was created last.
func WithLastCreate() []OpOption { return withTop(SortByCreateRevision, SortDescend) }

// WithFirstKey gets the lexically first key with the prefix given.
func WithFirstKey() []OpOption { return withTop(SortByKey, SortAscend) }

// WithLastKey gets the lexically last key with the prefix given.
func WithLastKey() []OpOption { return withTop(SortByKey, SortDescend) }

// WithFirstRev gets the key with the prefix given whose last write is the oldest.
func WithFirstRev() []OpOption { return withTop(SortByModRevision, SortAscend) }

// WithLastRev gets the key with the prefix given whose last write is the newest.
func WithLastRev() []OpOption { return withTop(SortByModRevision, SortDescend) }

func withTop(target SortTarget, order SortOrder) []OpOption {
	return []OpOption{WithPrefix(), WithSort(target, order), WithLimit(1)}
}
