package clientv3

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
