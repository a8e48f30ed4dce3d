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

// attempt records an attempt and returns its number.
func (b *book) attempt(a lockcheck.Attempt) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Attempts = append(b.Attempts, a)
	return len(b.Attempts) - 1
}

func (b *book) write(w lockcheck.Write) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Writes = append(b.Writes, w)
}

func (b *book) release(r lockcheck.Release) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Releases = append(b.Releases, r)
}
