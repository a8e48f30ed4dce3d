package leasing

import (
	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// span is the range of leasing keys of the keys that a write may change.
type span struct {
	semantics.Range
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

func (k *kv) spanOf(op clientv3.Op) span {
	keys, all := semantics.Of(op.KeyBytes(), op.RangeBytes()), semantics.Range{Key: k.prefix, End: clientv3.GetPrefixRangeEnd(k.prefix)}
	switch {
	case !keys.Single() && keys.Overlaps(all):
		// It deletes leasing keys of any owner: all have to be released first.
		return span{Range: all, exclusive: true}
	case keys.End == "\x00":
		keys.End = all.End
	case !keys.Single():
		keys.End = k.leasingKey(keys.End)
	}
	keys.Key = k.leasingKey(keys.Key)
	return span{Range: keys}
}

// guard holds if the write may proceed. For a single leasing key it requires the
// owned incarnation, or none. For a range it requires that none was created after
// floor: earlier ones have been listed and are owned.
func (s span) guard() clientv3.Cmp {
	if s.Single() {
		return clientv3.Compare(clientv3.CreateRevision(s.Key), "=", s.floor)
	}
	return clientv3.Compare(clientv3.CreateRevision(s.Key).WithRange(s.End), "<", s.floor+1)
}

func (s span) list() clientv3.Op {
	if s.Single() {
		return clientv3.OpGet(s.Key)
	}
	return clientv3.OpGet(s.Key, clientv3.WithRange(s.End))
}
