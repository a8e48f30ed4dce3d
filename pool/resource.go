package pool

// Resource is a loan of a resource of a [Pool]. It is a small value and may be copied; all
// copies are the same loan. That of a failed Acquire is the zero value, of which all
// methods may be called.
type Resource[T any] struct {
	pool  *Pool[T]
	item  *item[T]
	lease uint64
}

// Value returns the resource, which is the caller's until Release or Discard.
func (r Resource[T]) Value() T {
	if r.item == nil {
		var none T
		return none
	}
	return r.item.value
}

// Release gives the resource back. It is destroyed if it is too old, if MaxIdle others are
// idle, or if the pool is closed; then Release returns after Destroy. When the loan has
// ended before, Release does nothing, whoever has the resource now, and Stats counts it.
func (r Resource[T]) Release() { r.end(sound) }

// Discard ends the loan and destroys the resource, which its borrower has found to be of no
// use. Like Release, it can do this once.
func (r Resource[T]) Discard() { r.end(discarded) }

func (r Resource[T]) end(why fault) {
	if r.item != nil {
		r.pool.giveBack(r.item, r.lease, why, borrowed)
	}
}
