package pool

// Resource is a loan of a resource of a [Pool]. It is a small value and may be copied; all
// copies are the same loan. That of a failed Acquire is the zero value, of which all
// methods may be called.
type Resource[T any] struct {
	pool  *Pool[T]
	item  *item[T]
	lease uint64
}

// Value returns the resource, which is the caller's until Release, ReleaseUnused or Discard.
func (r Resource[T]) Value() T {
	if r.item == nil {
		var none T
		return none
	}
	return r.item.value
}

// Release gives the resource back. It is destroyed if it is too old, if MaxIdle others are
// idle, if there are more than MaxSize, or if the pool was reset or closed; then Release returns after Destroy. When the loan has
// ended before, Release does nothing, whoever has the resource now, and Stats counts it.
func (r Resource[T]) Release() { r.end(sound, borrowed) }

// ReleaseUnused gives the resource back as one that was not used: it has been idle since it was
// used before. It is for what was borrowed to be looked at, see [Pool.AcquireAllIdle].
func (r Resource[T]) ReleaseUnused() { r.end(sound, unused) }

// Discard ends the loan and destroys the resource, which its borrower has found to be of no
// use. Like Release, it can do this once.
func (r Resource[T]) Discard() { r.end(discarded, borrowed) }

// Hijack ends the loan and takes the resource out of the pool, which may make another. The value
// is the caller's, who has to do what Destroy does. When the loan has ended before, ok is false,
// the value is not the caller's, and Stats counts it.
func (r Resource[T]) Hijack() (value T, ok bool) {
	if r.item == nil {
		return value, false
	}
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.item.lease != r.lease {
		p.counters.stale++
		return value, false
	}
	r.item.lease = 0
	p.size--
	p.counters.hijacked++
	p.refill()
	return r.item.value, true
}

func (r Resource[T]) end(why fault, how usage) {
	if r.item == nil || r.pool.giveBack(r.item, r.lease, why, how) {
		return
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.pool.counters.stale++
}
