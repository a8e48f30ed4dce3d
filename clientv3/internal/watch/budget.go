package watch

import "sync/atomic"

const (
	// share is the part of what is left that a watch may hold: slow ones leave room for
	// others, however many they are.
	share = 4

	// floor is the part of its own bound that a watch may hold when nothing is left, so
	// that one whose reader keeps up does not pause for a burst, which would make the
	// server read history for it.
	floor = 1024
)

// Budget bounds what several watches hold together, in bytes. Each goes past its
// allowance by one response at most, the one with which it pauses.
type Budget struct {
	max  int64
	used atomic.Int64
}

// NewBudget returns a budget of as many bytes.
func NewBudget(max int) *Budget { return &Budget{max: int64(max)} }

// use adds to what is used; a negative number gives back.
func (b *Budget) use(bytes int) { b.used.Add(int64(bytes)) }

// allowance is how many bytes a watch with a bound of its own may hold at the moment.
func (b *Budget) allowance(bound int) int { return max(bound/floor, min(bound, b.left()/share)) }

// Used returns how many bytes are held, and how many may be.
func (b *Budget) Used() (used, limit int64) { return b.used.Load(), b.max }

// left is how many bytes are not used.
func (b *Budget) left() int { return int(max(0, b.max-b.used.Load())) }
