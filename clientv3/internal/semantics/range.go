// Package semantics has rules of etcd for ranges, comparisons and the selection of keys.
package semantics

import (
	"slices"
	"strings"
)

// open is the end of a range that has none.
const open = "\x00"

// Range is a set of neighbouring keys, as requests and permissions name it: Key alone if End is empty, every key
// from Key on if End is one zero byte, and otherwise the keys from Key up to but without End.
type Range struct{ Key, End string }

// Of returns the range that a request means.
func Of(key, rangeEnd []byte) Range { return Range{string(key), string(rangeEnd)} }

// Single reports whether r names one key.
func (r Range) Single() bool { return r.End == "" }

// Contains reports whether key is in r.
func (r Range) Contains(key string) bool {
	if r.Single() {
		return key == r.Key
	}
	return r.Key <= key && r.reaches(key)
}

// reaches reports whether a key is before the end of r, which is not a single key.
func (r Range) reaches(key string) bool { return r.End == open || key < r.End }

// half returns r as a range that has an end.
func (r Range) half() Range {
	if r.Single() {
		r.End = r.Key + "\x00"
	}
	return r
}

// Empty reports whether no key can be in r.
func (r Range) Empty() bool { return !r.half().reaches(r.Key) }

// Overlaps reports whether r and o, neither of which is empty, have keys in common.
func (r Range) Overlaps(o Range) bool { return r.half().reaches(o.Key) && o.half().reaches(r.Key) }

// Includes reports whether every key of o is in r.
func (r Range) Includes(o Range) bool {
	if o.Single() {
		return r.Contains(o.Key)
	}
	return r.Key <= o.Key && (r.End == open || o.End != open && o.End <= r.half().End)
}

// CoveredBy reports whether every key of r is in one of the ranges.
func (r Range) CoveredBy(ranges []Range) bool {
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b Range) int { return strings.Compare(a.Key, b.Key) })
	left := r
	for _, c := range sorted {
		if c.Contains(left.Key) {
			if c.Includes(left) {
				return true
			}
			left = Range{c.half().End, r.half().End}
		}
	}
	return false
}
