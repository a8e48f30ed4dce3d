package clientv3

// SortTarget is the property by which the keys of a Get are sorted.
type SortTarget int

// SortOrder is the direction in which the keys of a Get are sorted.
type SortOrder int

const (
	// SortNone keeps the lexical order of the store.
	SortNone SortOrder = iota
	// SortAscend sorts from the smallest to the largest.
	SortAscend
	// SortDescend sorts from the largest to the smallest.
	SortDescend
)

const (
	// SortByKey sorts by the key's bytes.
	SortByKey SortTarget = iota
	// SortByVersion sorts by the number of writes since the key was created.
	SortByVersion
	// SortByCreateRevision sorts by the revision that created the key.
	SortByCreateRevision
	// SortByModRevision sorts by the revision that last wrote the key.
	SortByModRevision
	// SortByValue sorts by the value's bytes.
	SortByValue
)

// SortOption is what [WithSort] sets.
type SortOption struct {
	// Target is the property to sort by.
	Target SortTarget
	// Order is the direction.
	Order SortOrder
}
