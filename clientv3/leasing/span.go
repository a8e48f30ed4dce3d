package leasing

import (
	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
)

// span is the range of leasing keys of the keys that a write may change.
type span struct {
	// begin is the first leasing key, and the only one if end is empty. end is
	// exclusive.
	begin, end string
	// exclusive says that no leasing key may exist in the range, not even this
	// client's.
	exclusive bool
	// floor is the highest create revision of a leasing key in the range that lets
	// the write proceed.
	floor int64
}

// spansOf returns the spans of all writes in ops, including both branches of
// transactions.
func (k *kv) spansOf(ops ...clientv3.Op) []span {
	var spans []span
	seen := map[span]bool{}
	for _, op := range optxn.Writes(ops...) {
		if s := k.spanOf(op); !seen[s] {
			seen[s] = true
			spans = append(spans, s)
		}
	}
	return spans
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
		// It deletes leasing keys of any owner: all have to be released first.
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

// guard holds if the write may proceed. For a single leasing key it requires the
// owned incarnation, or none. For a range it requires that none was created after
// floor: earlier ones have been listed and are owned.
func (s span) guard() clientv3.Cmp {
	if s.end == "" {
		return clientv3.Compare(clientv3.CreateRevision(s.begin), "=", s.floor)
	}
	return clientv3.Compare(clientv3.CreateRevision(s.begin).WithRange(s.end), "<", s.floor+1)
}

func (s span) list() clientv3.Op {
	if s.end == "" {
		return clientv3.OpGet(s.begin)
	}
	return clientv3.OpGet(s.begin, clientv3.WithRange(s.end))
}
