package clientv3

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

type opType int

const (
	// The zero Op has no type and cannot be executed.
	tRange opType = iota + 1
	tPut
	tDeleteRange
	tTxn
)

// Op is one operation: a get, put, delete or txn for [KV.Do] and [Txn], or the
// parameters of a watch. It is a value; build it with [OpGet], [OpPut],
// [OpDelete], [OpTxn] or [OpWatch].
type Op struct {
	t   opType
	key []byte
	end []byte

	// Get.
	limit        int64
	sort         *SortOption
	serializable bool
	keysOnly     bool
	countOnly    bool
	minModRev    int64
	maxModRev    int64
	minCreateRev int64
	maxCreateRev int64
	pageKeys     int64 // of the first page of a GetStream from a server that cannot stream, 0 for an error

	// Get and watch: the revision to read at, or to start from.
	rev int64

	// Watch, put and delete.
	prevKV bool

	// Watch.
	fragment           bool
	watchBufLogEnabled bool
	progressNotify     bool
	createdNotify      bool
	filterPut          bool
	filterDelete       bool

	// Put.
	val         []byte
	leaseID     LeaseID
	ignoreValue bool
	ignoreLease bool

	// Txn.
	cmps    []Cmp
	thenOps []Op
	elseOps []Op

	isOptsWithFromKey bool
	isOptsWithPrefix  bool
}

// NewOp returns an Op with an empty key and no type, to inspect the effect of
// options. It cannot be executed.
func NewOp() *Op { return &Op{key: []byte{}} }

// OpGet returns the operation that reads key, or the range set by the options. It
// panics when both [WithPrefix] and [WithFromKey] are given.
func OpGet(key string, opts ...OpOption) Op {
	return Op{t: tRange, key: []byte(key)}.with(opts, inGet)
}

// OpPut returns the operation that writes val to key. It panics on options that do
// not apply to a put: ranges, and options of reads or watches.
func OpPut(key, val string, opts ...OpOption) Op {
	return Op{t: tPut, key: []byte(key), val: []byte(val)}.with(opts, inPut)
}

// OpDelete returns the operation that deletes key, or the range set by the options.
// It panics when both [WithPrefix] and [WithFromKey] are given, and on options that
// do not apply to a delete: leases, and options of reads or watches.
func OpDelete(key string, opts ...OpOption) Op {
	return Op{t: tDeleteRange, key: []byte(key)}.with(opts, inDelete)
}

// OpTxn returns the operation that executes thenOps if every comparison holds, and
// elseOps otherwise. The comparisons are copied: changing one afterwards does not
// change the operation.
func OpTxn(cmps []Cmp, thenOps []Op, elseOps []Op) Op {
	own := make([]Cmp, len(cmps))
	for i := range cmps {
		own[i] = cmps[i].Clone()
	}
	return Op{t: tTxn, cmps: own, thenOps: thenOps, elseOps: elseOps}
}

// OpWatch returns the parameters of a watch on key, or on the range set by the
// options. It panics on options that do not apply to a watch: leases, and options
// of reads.
func OpWatch(key string, opts ...OpOption) Op {
	return Op{t: tRange, key: []byte(key)}.with(opts, inWatch)
}

// with returns the operation with the options applied. It panics if an option does not
// apply to it.
func (op Op) with(opts []OpOption, place opPlace) Op {
	if len(opts) == 0 {
		return op
	}
	changed := op // on the heap, which only options need
	changed.apply(opts)
	changed.reject(place)
	return changed
}

func (op *Op) apply(opts []OpOption) {
	for _, opt := range opts {
		opt(op)
	}
}

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

// opPlace is a set of the operation types that check their options.
type opPlace uint8

const (
	inGet opPlace = 1 << iota
	inPut
	inDelete
	inWatch
)

var opPlaceNames = map[opPlace]string{inPut: "put", inDelete: "delete", inWatch: "watch"}

// misplaced lists, in the order of the checks, the settings of options and the
// operations they do not apply to. The names are part of the panic's value, which
// equals the official client's.
var misplaced = [...]struct {
	name  string
	where opPlace
	isSet func(*Op) bool
}{
	{"lease", inDelete | inWatch, func(op *Op) bool { return op.leaseID != NoLease }},
	{"range", inPut, func(op *Op) bool { return op.end != nil }},
	{"limit", inPut | inDelete | inWatch, func(op *Op) bool { return op.limit != 0 }},
	{"revision", inPut | inDelete, func(op *Op) bool { return op.rev != 0 }},
	{"sort", inPut | inDelete | inWatch, func(op *Op) bool { return op.sort != nil }},
	{"serializable", inPut | inDelete | inWatch, func(op *Op) bool { return op.serializable }},
	{"countOnly", inPut | inDelete | inWatch, func(op *Op) bool { return op.countOnly }},
	{"mod revision filter", inPut | inDelete | inWatch, func(op *Op) bool {
		return op.minModRev != 0 || op.maxModRev != 0
	}},
	{"create revision filter", inPut | inDelete | inWatch, func(op *Op) bool {
		return op.minCreateRev != 0 || op.maxCreateRev != 0
	}},
	{"filter", inPut | inDelete, func(op *Op) bool { return op.filterPut || op.filterDelete }},
	{"createdNotify", inPut | inDelete, func(op *Op) bool { return op.createdNotify }},
}

// reject panics if an option does not apply to the operation, or two options set
// conflicting ranges.
func (op *Op) reject(place opPlace) {
	if place&(inGet|inDelete) != 0 && op.isOptsWithPrefix && op.isOptsWithFromKey {
		panic("`WithPrefix` and `WithFromKey` cannot be set at the same time, choose one")
	}
	for i := range misplaced {
		if m := &misplaced[i]; m.where&place != 0 && m.isSet(op) {
			panic("unexpected " + m.name + " in " + opPlaceNames[place])
		}
	}
}

func (op *Op) toRangeRequest() *pb.RangeRequest {
	r := &pb.RangeRequest{
		Key:               op.key,
		RangeEnd:          op.end,
		Limit:             op.limit,
		Revision:          op.rev,
		Serializable:      op.serializable,
		KeysOnly:          op.keysOnly,
		CountOnly:         op.countOnly,
		MinModRevision:    op.minModRev,
		MaxModRevision:    op.maxModRev,
		MinCreateRevision: op.minCreateRev,
		MaxCreateRevision: op.maxCreateRev,
	}
	if op.sort != nil {
		r.SortOrder = pb.RangeRequest_SortOrder(op.sort.Order)
		r.SortTarget = pb.RangeRequest_SortTarget(op.sort.Target)
	}
	return r
}

func (op *Op) toPutRequest() *pb.PutRequest {
	return &pb.PutRequest{
		Key:         op.key,
		Value:       op.val,
		Lease:       int64(op.leaseID),
		PrevKv:      op.prevKV,
		IgnoreValue: op.ignoreValue,
		IgnoreLease: op.ignoreLease,
	}
}

func (op *Op) toDeleteRequest() *pb.DeleteRangeRequest {
	return &pb.DeleteRangeRequest{Key: op.key, RangeEnd: op.end, PrevKv: op.prevKV}
}

// toTxnRequest shares the comparisons with op, which copied them when it was built.
func (op *Op) toTxnRequest() *pb.TxnRequest {
	cmps := make([]*pb.Compare, len(op.cmps))
	for i := range op.cmps {
		cmps[i] = op.cmps[i].GetCompare()
	}
	return &pb.TxnRequest{
		Compare: cmps,
		Success: toRequestOps(op.thenOps),
		Failure: toRequestOps(op.elseOps),
	}
}

func toRequestOps(ops []Op) []*pb.RequestOp {
	requests := make([]*pb.RequestOp, len(ops))
	for i := range ops {
		requests[i] = ops[i].toRequestOp()
	}
	return requests
}

func (op *Op) toRequestOp() *pb.RequestOp {
	switch op.t {
	case tRange:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: op.toRangeRequest()}}
	case tPut:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: op.toPutRequest()}}
	case tDeleteRange:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: op.toDeleteRequest()}}
	case tTxn:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: op.toTxnRequest()}}
	default:
		panic("Unknown Op")
	}
}

// OpResponse is the result of [KV.Do]: exactly one of its four responses is set,
// according to the operation.
type OpResponse struct {
	put *PutResponse
	get *GetResponse
	del *DeleteResponse
	txn *TxnResponse
}

// Put returns the response to a put, nil for any other operation.
func (op OpResponse) Put() *PutResponse { return op.put }

// Get returns the response to a get, nil for any other operation.
func (op OpResponse) Get() *GetResponse { return op.get }

// Del returns the response to a delete, nil for any other operation.
func (op OpResponse) Del() *DeleteResponse { return op.del }

// Txn returns the response to a transaction, nil for any other operation.
func (op OpResponse) Txn() *TxnResponse { return op.txn }

// OpResponse wraps the response as [KV.Do] would return it.
func (resp *PutResponse) OpResponse() OpResponse { return OpResponse{put: resp} }

// OpResponse wraps the response as [KV.Do] would return it.
func (resp *GetResponse) OpResponse() OpResponse { return OpResponse{get: resp} }

// OpResponse wraps the response as [KV.Do] would return it.
func (resp *DeleteResponse) OpResponse() OpResponse { return OpResponse{del: resp} }

// OpResponse wraps the response as [KV.Do] would return it.
func (resp *TxnResponse) OpResponse() OpResponse { return OpResponse{txn: resp} }

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
