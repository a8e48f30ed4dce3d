// Package tally counts violations by kind, and says which of them to keep.
package tally

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
