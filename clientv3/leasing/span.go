package leasing

import (
	"github.com/quorate/quorate/clientv3"
)

// span is a range of leasing keys: those of the keys that a write may change.
type span struct {
	// begin is the first leasing key, and the only one if end is empty. Otherwise
	// end is the first that is not in the range.
	begin, end string
	// exclusive says that not even this client's own leasing keys may be there.
	exclusive bool
	// floor is the highest revision at which a leasing key in the range may have
	// been created, for the write to go ahead.
	floor int64
}

// spansOf returns the spans of every write in ops, those in transactions and in
// both of their branches included.
func (k *kv) spansOf(ops ...clientv3.Op) []span {
	var spans []span
	seen := map[span]bool{}
	for _, op := range writesIn(ops) {
		if s := k.spanOf(op); !seen[s] {
			seen[s] = true
			spans = append(spans, s)
		}
	}
	return spans
}

// writesIn returns the puts and deletes in ops, those in transactions included.
func writesIn(ops []clientv3.Op) []clientv3.Op {
	var writes []clientv3.Op
	for _, op := range ops {
		switch {
		case op.IsTxn():
			_, thenOps, elseOps := op.Txn()
			writes = append(writes, writesIn(thenOps)...)
			writes = append(writes, writesIn(elseOps)...)
		case !op.IsGet():
			writes = append(writes, op)
		}
	}
	return writes
}

// toTheEnd is the end of a range that has none.
const toTheEnd = "\x00"

func (k *kv) spanOf(op clientv3.Op) span {
	begin, end := string(op.KeyBytes()), string(op.RangeBytes())
	prefixEnd := clientv3.GetPrefixRangeEnd(k.prefix)
	switch {
	case end == "":
		return span{begin: k.leasingKey(begin)}
	case before(k.prefix, end) && before(begin, prefixEnd):
		// It deletes leasing keys, whosever they are: all have to be given up first.
		return span{begin: k.prefix, end: prefixEnd, exclusive: true}
	case end == toTheEnd:
		return span{begin: k.leasingKey(begin), end: prefixEnd}
	default:
		return span{begin: k.leasingKey(begin), end: k.leasingKey(end)}
	}
}

// before reports whether key comes before the end of a range.
func before(key, end string) bool { return end == toTheEnd || key < end }

func (s span) contains(lkey string) bool {
	if s.end == "" {
		return lkey == s.begin
	}
	return lkey >= s.begin && before(lkey, s.end)
}

// guard holds if the write may go ahead. Of a single leasing key it asks for the
// very incarnation that is owned, or for none. Of a range it asks that none was
// created after floor: what was created before has been listed, and is owned.
func (s span) guard() clientv3.Cmp {
	if s.end == "" {
		return clientv3.Compare(clientv3.CreateRevision(s.begin), "=", s.floor)
	}
	return clientv3.Compare(clientv3.CreateRevision(s.begin).WithRange(s.end), "<", s.floor+1)
}

// list reads the leasing keys of the span.
func (s span) list() clientv3.Op {
	if s.end == "" {
		return clientv3.OpGet(s.begin)
	}
	return clientv3.OpGet(s.begin, clientv3.WithRange(s.end))
}
