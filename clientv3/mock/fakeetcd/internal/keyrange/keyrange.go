// Package keyrange holds the ranges of keys that etcd's requests and
// permissions name by a key and a range_end.
package keyrange

import (
	"slices"
	"strings"
)

// Range is a set of neighbouring keys.
type Range struct {
	start string
	end   string // exclusive, without meaning if open
	open  bool   // every key from start on
}

// Of returns the range that a request means: the key alone without a
// rangeEnd, every key from key on for a rangeEnd of one zero byte, and
// otherwise the keys from key up to but without rangeEnd.
func Of(key, rangeEnd []byte) Range {
	switch {
	case len(rangeEnd) == 0:
		return Range{start: string(key), end: string(key) + "\x00"}
	case len(rangeEnd) == 1 && rangeEnd[0] == 0:
		return Range{start: string(key), open: true}
	default:
		return Range{start: string(key), end: string(rangeEnd)}
	}
}

// Contains reports whether key is in r.
func (r Range) Contains(key string) bool {
	return r.start <= key && (r.open || key < r.end)
}

// Empty reports whether no key can be in r.
func (r Range) Empty() bool { return !r.open && r.end <= r.start }

// CoveredBy reports whether every key of r is in one of the ranges.
func (r Range) CoveredBy(ranges []Range) bool {
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b Range) int { return strings.Compare(a.start, b.start) })
	reached := r.start
	for _, c := range sorted {
		if !c.Contains(reached) {
			continue
		}
		if c.open {
			return true
		}
		reached = c.end
		if !r.open && r.end <= reached {
			return true
		}
	}
	return false
}
