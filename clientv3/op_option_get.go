package clientv3

// WithLimit bounds the number of keys that a get returns. 0 means no bound.
func WithLimit(n int64) OpOption { return func(op *Op) { op.limit = n } }

// WithSort makes a get return its keys in the order of target. The store returns
// keys in ascending order anyway, and a sort would make the server read the whole
// range despite a limit, so SortByKey with SortAscend is sent as SortNone.
func WithSort(target SortTarget, order SortOrder) OpOption {
	return func(op *Op) {
		sort := SortOption{Target: target, Order: order}
		if target == SortByKey && order == SortAscend {
			sort.Order = SortNone
		}
		op.sort = &sort
	}
}

// WithSerializable makes a member answer a get or a member list from its own state.
// That needs no agreement with other members and no leader, and may be arbitrarily
// stale. The default is linearizable.
func WithSerializable() OpOption { return func(op *Op) { op.serializable = true } }

// WithKeysOnly makes a get return keys without their values.
func WithKeysOnly() OpOption { return func(op *Op) { op.keysOnly = true } }

// WithCountOnly makes a get return the number of keys and nothing else.
func WithCountOnly() OpOption { return func(op *Op) { op.countOnly = true } }

// WithMinModRev excludes from a get the keys last written before the given
// revision.
func WithMinModRev(rev int64) OpOption { return func(op *Op) { op.minModRev = rev } }

// WithMaxModRev excludes from a get the keys last written after the given revision.
func WithMaxModRev(rev int64) OpOption { return func(op *Op) { op.maxModRev = rev } }

// WithMinCreateRev excludes from a get the keys created before the given revision.
func WithMinCreateRev(rev int64) OpOption { return func(op *Op) { op.minCreateRev = rev } }

// WithMaxCreateRev excludes from a get the keys created after the given revision.
func WithMaxCreateRev(rev int64) OpOption { return func(op *Op) { op.maxCreateRev = rev } }

// WithPageFallback makes [KV.GetStream] read the range page by page, at one revision,
// from a server that has no RangeStream method (etcd before 3.7, the gRPC proxy).
// Without it such a server's codes.Unimplemented ends the stream. It has no effect on
// a sort order other than by key or on filters by revision, which no server streams.
func WithPageFallback() OpOption { return func(op *Op) { op.pageKeys = firstPageKeys } }

// WithFirstCreate gets the first-created key with the given prefix.
func WithFirstCreate() []OpOption { return withTop(SortByCreateRevision, SortAscend) }

// WithLastCreate gets the last-created key with the given prefix.
func WithLastCreate() []OpOption { return withTop(SortByCreateRevision, SortDescend) }

// WithFirstKey gets the lexically first key with the given prefix.
func WithFirstKey() []OpOption { return withTop(SortByKey, SortAscend) }

// WithLastKey gets the lexically last key with the given prefix.
func WithLastKey() []OpOption { return withTop(SortByKey, SortDescend) }

// WithFirstRev gets the least recently written key with the given prefix.
func WithFirstRev() []OpOption { return withTop(SortByModRevision, SortAscend) }

// WithLastRev gets the most recently written key with the given prefix.
func WithLastRev() []OpOption { return withTop(SortByModRevision, SortDescend) }

func withTop(target SortTarget, order SortOrder) []OpOption {
	return []OpOption{WithPrefix(), WithSort(target, order), WithLimit(1)}
}
