package tally

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

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

// MarshalJSON returns subject → what → number.
func (c *Counts) MarshalJSON() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return json.Marshal(c.of)
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
