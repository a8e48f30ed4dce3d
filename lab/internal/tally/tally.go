// Package tally counts violations by kind, and says which of them to keep.
package tally

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxKept bounds the violations of one kind that are kept with their evidence; the
// others are only counted.
const maxKept = 10

// Add counts one violation of a kind, and reports whether it is to be kept.
func Add[K comparable](counts *map[K]int, kind K) bool {
	if *counts == nil {
		*counts = make(map[K]int)
	}
	(*counts)[kind]++
	return (*counts)[kind] <= maxKept
}

// Total returns the number of violations of all kinds.
func Total[K comparable](counts map[K]int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

// Violation is one broken promise.
type Violation[P cmp.Ordered] struct {
	Promise P
	// Message says what is wrong, with the evidence.
	Message string
	// Page is the file that shows it in a browser, empty if there is none.
	Page string
}

// Verdict is what checks found.
type Verdict[P cmp.Ordered] struct {
	// Violations holds at most ten of each promise.
	Violations []Violation[P]
	// Counts has the number of violations of each promise, kept or not.
	Counts map[P]int
}

// OK reports whether every promise was kept.
func (v Verdict[P]) OK() bool { return len(v.Violations) == 0 }

// Total returns the number of violations, those that were not kept included.
func (v Verdict[P]) Total() int { return Total(v.Counts) }

// String returns the verdict in lines: that all is well, or the number of violations of each
// promise and then those that were kept.
func (v Verdict[P]) String() string {
	if v.OK() {
		return "every promise was kept\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d violations\n", v.Total())
	for _, p := range slices.Sorted(maps.Keys(v.Counts)) {
		fmt.Fprintf(&b, "  %-13v %d\n", p, v.Counts[p])
	}
	for _, violation := range v.Violations {
		fmt.Fprintf(&b, "\n%v: %s\n", violation.Promise, violation.Message)
		if violation.Page != "" {
			fmt.Fprintf(&b, "    see %s\n", violation.Page)
		}
	}
	return b.String()
}

// Add counts a violation. It returns the violation if it is kept, because there are not too many
// of its kind, and nil otherwise.
func (v *Verdict[P]) Add(p P, format string, args ...any) *Violation[P] {
	if !Add(&v.Counts, p) {
		return nil
	}
	v.Violations = append(v.Violations, Violation[P]{Promise: p, Message: fmt.Sprintf(format, args...)})
	return &v.Violations[len(v.Violations)-1]
}

// Merge adds what another verdict says.
func (v *Verdict[P]) Merge(other Verdict[P]) {
	v.Violations = append(v.Violations, other.Violations...)
	for p, n := range other.Counts {
		if v.Counts == nil {
			v.Counts = make(map[P]int)
		}
		v.Counts[p] += n
	}
}
