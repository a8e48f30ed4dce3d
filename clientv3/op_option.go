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

// WithLease attaches the key of a put to a lease: when the lease ends, the key is
// deleted. [NoLease] detaches it. A put with an unknown lease fails with
// rpctypes.ErrLeaseNotFound.
func WithLease(leaseID LeaseID) OpOption { return func(op *Op) { op.leaseID = leaseID } }

// WithIgnoreValue makes a put keep the key's value. The put's value must be empty
// (else rpctypes.ErrValueProvided) and the key must exist (else
// rpctypes.ErrKeyNotFound).
func WithIgnoreValue() OpOption { return func(op *Op) { op.ignoreValue = true } }

// WithIgnoreLease makes a put keep the key's lease. It excludes [WithLease] (else
// rpctypes.ErrLeaseProvided) and the key must exist (else rpctypes.ErrKeyNotFound).
func WithIgnoreLease() OpOption { return func(op *Op) { op.ignoreLease = true } }

// WithProgressNotify makes the server send an empty response to a watch without
// events, every ten minutes by default. Its header's revision says up to where the
// watch has received all events.
func WithProgressNotify() OpOption { return func(op *Op) { op.progressNotify = true } }

// WithCreatedNotify makes a watch deliver a response without events when the
// server has created it.
func WithCreatedNotify() OpOption { return func(op *Op) { op.createdNotify = true } }

// WithFilterPut excludes puts from a watch.
func WithFilterPut() OpOption { return func(op *Op) { op.filterPut = true } }

// WithFilterDelete excludes deletes from a watch.
func WithFilterDelete() OpOption { return func(op *Op) { op.filterDelete = true } }

// WithFragment lets the server split a watch response that is larger than its
// request limit (--max-request-bytes, 1.5 MiB by default, plus 512 KiB) into
// several. Watches of this client ask for that, merge what fits in three quarters of
// Config.MaxWatchBufferBytes, and deliver whole revisions. The option is needed over a WatchClient of
// the program, and by a client with a Config.MaxCallRecvMsgSize: without it, a larger response ends
// the watch with ResourceExhausted.
func WithFragment() OpOption { return func(op *Op) { op.fragment = true } }

// WithWatchBufLog makes a watch log when its responses wait long for a slow
// reader.
func WithWatchBufLog() OpOption { return func(op *Op) { op.watchBufLogEnabled = true } }

// SortTarget is the property by which the keys of a Get are sorted.
type SortTarget int

// SortOrder is the direction in which the keys of a Get are sorted.
type SortOrder int

const (
	// SortNone keeps the lexical order of the store.
	SortNone SortOrder = iota
	// SortAscend sorts from the smallest to the largest.
	SortAscend
	// SortDescend sorts from the largest to the smallest.
	SortDescend
)

const (
	// SortByKey sorts by the key's bytes.
	SortByKey SortTarget = iota
	// SortByVersion sorts by the number of writes since the key was created.
	SortByVersion
	// SortByCreateRevision sorts by the revision that created the key.
	SortByCreateRevision
	// SortByModRevision sorts by the revision that last wrote the key.
	SortByModRevision
	// SortByValue sorts by the value's bytes.
	SortByValue
)

// SortOption is what [WithSort] sets.
type SortOption struct {
	// Target is the property to sort by.
	Target SortTarget
	// Order is the direction.
	Order SortOrder
}

// GetPrefixRangeEnd returns the end of the range of all keys that begin with
// prefix: the smallest key greater than every one of them. For a prefix that has
// no such key (empty, or nothing but 0xff) it returns "\x00", which as a range
// end means every key from the start on.
//
// Get(prefix, WithRange(GetPrefixRangeEnd(prefix))) equals
// Get(prefix, WithPrefix()).
func GetPrefixRangeEnd(prefix string) string {
	return string(prefixEnd([]byte(prefix)))
}

func prefixEnd(prefix []byte) []byte {
	for last := len(prefix) - 1; last >= 0; last-- {
		if prefix[last] == 0xff {
			continue
		}
		end := append([]byte(nil), prefix[:last+1]...)
		end[last]++
		return end
	}
	return fromKeyEnd()
}

// fromKeyEnd returns the range end that stands for "no end".
func fromKeyEnd() []byte { return []byte{0} }
