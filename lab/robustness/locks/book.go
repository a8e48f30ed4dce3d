package locks

import (
	"sync"

	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// book is the record of what contenders do and receive.
type book struct {
	mu       sync.Mutex
	attempts []lockcheck.Attempt
	writes   []lockcheck.Write
	releases []lockcheck.Release
}

// attempt records an attempt and returns its number.
func (b *book) attempt(a lockcheck.Attempt) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts = append(b.attempts, a)
	return len(b.attempts) - 1
}

func (b *book) write(w lockcheck.Write) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes = append(b.writes, w)
}

func (b *book) release(r lockcheck.Release) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.releases = append(b.releases, r)
}
