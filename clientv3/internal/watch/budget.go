package watch

import "sync/atomic"

const (
	// share is the fraction (1/share) of the free budget that one watch may hold, so
	// slow watches, however many, leave room for others.
	share = 4

	// floor is the fraction (1/floor) of its own bound that a watch may hold when no
	// budget is free. So a watch whose reader keeps up does not pause for a burst; a
	// pause would make the server read history.
	floor = 1024
)

// Budget bounds what several watches hold together, in bytes. Each exceeds its
// allowance by at most two responses: the one in the caller's channel, and the one with
// which it pauses.
type Budget struct {
	max  int64
	used atomic.Int64
}

// NewBudget returns a budget of max bytes.
func NewBudget(max int) *Budget { return &Budget{max: int64(max)} }

// use adds to the used bytes; a negative number releases bytes.
func (b *Budget) use(bytes int) { b.used.Add(int64(bytes)) }

// allowance returns how many bytes a watch with the given bound may hold at present.
func (b *Budget) allowance(bound int) int { return max(bound/floor, min(bound, b.left()/share)) }

// Used returns how many bytes are held, and the limit.
func (b *Budget) Used() (used, limit int64) { return b.used.Load(), b.max }

func (b *Budget) left() int { return int(max(0, b.max-b.used.Load())) }
