package locks

import (
	"sync"

	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// book is the history of what contenders do and receive.
type book struct {
	mu sync.Mutex
	lockcheck.History
}

// record appends an entry to a list of the book and returns its number.
func record[T any](b *book, list *[]T, entry T) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	*list = append(*list, entry)
	return len(*list) - 1
}
