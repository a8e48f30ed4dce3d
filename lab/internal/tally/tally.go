// Package tally holds what a run counted ([Counts]), and what checks found ([Verdict]): violations by promise, some of them
// with their evidence.
package tally

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// maxKept bounds the violations of one promise that are kept with their evidence; the
// others are only counted.
const maxKept = 10

// Promise names what is checked, as reports spell it.
type Promise string

// Violation is one broken promise.
type Violation struct {
	Promise Promise
	// Message says what is wrong.
	Message string
	// Evidence lists the observations that prove it, oldest first; empty if the message says it all.
	Evidence []string
}

// Verdict is what checks found.
type Verdict struct {
	// Violations holds at most ten of each promise, and as many of each verdict that was merged into this one.
	Violations []Violation
	// Counts has the number of violations of each promise, kept or not.
	Counts map[Promise]int
}

// OK reports whether every promise was kept.
func (v Verdict) OK() bool { return v.Total() == 0 }

// Total returns the number of violations, those that were not kept included.
func (v Verdict) Total() int {
	total := 0
	for _, n := range v.Counts {
		total += n
	}
	return total
}

// String returns the verdict in lines: whether all is well, then the number of violations of each
// promise and then those that were kept.
func (v Verdict) String() string {
	if v.OK() {
		return "every promise was kept\n"
	}
	var b strings.Builder
	b.WriteString("not every promise was kept; violations:\n")
	for _, p := range slices.Sorted(maps.Keys(v.Counts)) {
		fmt.Fprintf(&b, "  %-13v %d\n", p, v.Counts[p])
	}
	for _, violation := range v.Violations {
		fmt.Fprintf(&b, "\nVIOLATION of %v: %s\n", violation.Promise, violation.Message)
		for _, line := range violation.Evidence {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	return b.String()
}

// Add counts a violation, and returns it so that the caller can add evidence. It is kept unless there are too many of its
// promise.
func (v *Verdict) Add(p Promise, format string, args ...any) *Violation {
	v.Count(p, 1)
	if v.Counts[p] > maxKept {
		return &Violation{}
	}
	v.Violations = append(v.Violations, Violation{Promise: p, Message: fmt.Sprintf(format, args...)})
	return &v.Violations[len(v.Violations)-1]
}

// Count counts n violations without keeping them.
func (v *Verdict) Count(p Promise, n int) {
	if v.Counts == nil {
		v.Counts = make(map[Promise]int)
	}
	v.Counts[p] += n
}

// Merge adds the violations of another verdict.
func (v *Verdict) Merge(other Verdict) {
	v.Violations = append(v.Violations, other.Violations...)
	for p, n := range other.Counts {
		v.Count(p, n)
	}
}

// Counts has what a run counted, by subject. It may be used concurrently.
type Counts struct {
	mu sync.Mutex
	of map[string]map[string]int
}

// Add adds n to a count of a subject, such as the accepted writes.
func (c *Counts) Add(subject, what string, n int) {
	c.change(subject, what, func(had int) int { return had + n })
}

// Max raises a count of a subject to n if it is lower.
func (c *Counts) Max(subject, what string, n int) {
	c.change(subject, what, func(had int) int { return max(had, n) })
}

func (c *Counts) change(subject, what string, change func(int) int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]map[string]int{}
	}
	if c.of[subject] == nil {
		c.of[subject] = map[string]int{}
	}
	c.of[subject][what] = change(c.of[subject][what])
}

// Of returns a count of a subject.
func (c *Counts) Of(subject, what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[subject][what]
}

// String has a line for each subject, such as "writes   accepted 10, refused 5".
func (c *Counts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, subject := range slices.Sorted(maps.Keys(c.of)) {
		counts := make([]string, 0, len(c.of[subject]))
		for _, what := range slices.Sorted(maps.Keys(c.of[subject])) {
			counts = append(counts, fmt.Sprint(what, " ", c.of[subject][what]))
		}
		fmt.Fprintf(&b, "%-21s%s\n", subject, strings.Join(counts, ", "))
	}
	return b.String()
}
