package clientv3

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

// IsTxn reports whether the operation is a transaction.
func (op Op) IsTxn() bool { return op.t == tTxn }

// IsPut reports whether the operation is a put.
func (op Op) IsPut() bool { return op.t == tPut }

// IsGet reports whether the operation is a get. The parameters of a watch count
// as one.
func (op Op) IsGet() bool { return op.t == tRange }

// IsDelete reports whether the operation is a delete.
func (op Op) IsDelete() bool { return op.t == tDeleteRange }

// Txn returns the comparisons, the operations executed if all of them hold, and the
// operations executed otherwise. The slices are the operation's own.
func (op Op) Txn() ([]Cmp, []Op, []Op) { return op.cmps, op.thenOps, op.elseOps }

// KeyBytes returns the key. The slice is the operation's own.
func (op Op) KeyBytes() []byte { return op.key }

// WithKeyBytes sets the key. The slice is kept, not copied.
func (op *Op) WithKeyBytes(key []byte) { op.key = key }

// RangeBytes returns the end of the range, nil for a single key. The slice is the
// operation's own.
func (op Op) RangeBytes() []byte { return op.end }

// WithRangeBytes sets the end of the range. The slice is kept, not copied.
func (op *Op) WithRangeBytes(end []byte) { op.end = end }

// ValueBytes returns the value of a put. The slice is the operation's own.
func (op Op) ValueBytes() []byte { return op.val }

// WithValueBytes sets the value of a put. The slice is kept, not copied.
func (op *Op) WithValueBytes(v []byte) { op.val = v }

// Rev returns the revision to read at or to watch from, 0 if none is set.
func (op Op) Rev() int64 { return op.rev }

// Limit returns the largest number of keys a get may return, 0 when unlimited.
func (op Op) Limit() int64 { return op.limit }

// IsSerializable reports whether [WithSerializable] is set.
func (op Op) IsSerializable() bool { return op.serializable }

// IsKeysOnly reports whether [WithKeysOnly] is set.
func (op Op) IsKeysOnly() bool { return op.keysOnly }

// IsCountOnly reports whether [WithCountOnly] is set.
func (op Op) IsCountOnly() bool { return op.countOnly }

// IsSortSet reports whether [WithSort] is set, in whatever order.
func (op Op) IsSortSet() bool { return op.sort != nil }

// IsSortOptionValid reports whether the server knows the sort target and order.
// A get without [WithSort] is valid.
func (op Op) IsSortOptionValid() bool {
	if op.sort == nil {
		return true
	}
	_, order := pb.RangeRequest_SortOrder_name[int32(op.sort.Order)]
	_, target := pb.RangeRequest_SortTarget_name[int32(op.sort.Target)]
	return order && target
}

// MinModRev returns the smallest modification revision to return, 0 if none is set.
func (op Op) MinModRev() int64 { return op.minModRev }

// MaxModRev returns the largest modification revision to return, 0 if none is set.
func (op Op) MaxModRev() int64 { return op.maxModRev }

// MinCreateRev returns the smallest creation revision to return, 0 if none is set.
func (op Op) MinCreateRev() int64 { return op.minCreateRev }

// MaxCreateRev returns the largest creation revision to return, 0 if none is set.
func (op Op) MaxCreateRev() int64 { return op.maxCreateRev }

// LeaseID returns the lease that a put attaches its key to, [NoLease] for none.
func (op Op) LeaseID() LeaseID { return op.leaseID }

// IsOptsWithPrefix reports whether [WithPrefix] is set.
func (op Op) IsOptsWithPrefix() bool { return op.isOptsWithPrefix }

// IsOptsWithFromKey reports whether [WithFromKey] is set.
func (op Op) IsOptsWithFromKey() bool { return op.isOptsWithFromKey }

// IsPrevKV reports whether [WithPrevKV] is set.
func (op Op) IsPrevKV() bool { return op.prevKV }

// IsFragment reports whether [WithFragment] is set.
func (op Op) IsFragment() bool { return op.fragment }

// IsProgressNotify reports whether [WithProgressNotify] is set.
func (op Op) IsProgressNotify() bool { return op.progressNotify }

// IsCreatedNotify reports whether [WithCreatedNotify] is set.
func (op Op) IsCreatedNotify() bool { return op.createdNotify }

// IsFilterPut reports whether [WithFilterPut] is set.
func (op Op) IsFilterPut() bool { return op.filterPut }

// IsFilterDelete reports whether [WithFilterDelete] is set.
func (op Op) IsFilterDelete() bool { return op.filterDelete }

// SortOption returns the option of [WithSort], the zero value if it is not set. For SortByKey
// with SortAscend the order is SortNone, as sent to the server.
func (op Op) SortOption() SortOption {
	if op.sort == nil {
		return SortOption{}
	}
	return *op.sort
}
