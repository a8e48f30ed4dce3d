package pool

// Resource is a loan of a resource of a [Pool]. It is a small value and may be copied; all
// copies are the same loan. A failed Acquire returns the zero value, whose methods may all
// be called.
type Resource[T any] struct {
	pool *Pool[T]
	item *item[T]
	loan uint64
}

// Value returns the resource. The caller may use it until Release, ReleaseUnused or Discard.
func (r Resource[T]) Value() T {
	if r.item == nil {
		var none T
		return none
	}
	return r.item.value
}

// Release returns the resource to the pool. It is destroyed if it is too old, if MaxIdle others are
// idle, if there are more than MaxSize, or if the pool was reset or closed; then Release returns
// after Destroy. If the loan has already ended, Release does nothing but count it in Stats.
func (r Resource[T]) Release() { r.end(sound, used) }

// ReleaseUnused returns the resource without counting the loan as a use: its idle time
// continues. Use it after inspecting a resource, see [Pool.AcquireAllIdle].
func (r Resource[T]) ReleaseUnused() { r.end(sound, unused) }

// Discard ends the loan and destroys the resource, for example because it is broken. If the
// loan has already ended, Discard does nothing but count it in Stats.
func (r Resource[T]) Discard() { r.end(discarded, used) }

// Hijack ends the loan and removes the resource from the pool, which may create another. The
// caller owns the value and must free it as Destroy does. If the loan has already ended, ok is
// false, the caller must not use the value, and Stats counts it.
func (r Resource[T]) Hijack() (value T, ok bool) {
	if r.item == nil {
		return value, false
	}
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.item.loan != r.loan {
		p.counts.StaleReleases++
		return value, false
	}
	r.item.loan = 0
	p.size--
	p.counts.Hijacked++
	p.refillLocked()
	return r.item.value, true
}

func (r Resource[T]) end(why fault, how usage) {
	if r.item == nil || r.pool.giveBack(r.item, r.loan, why, how) {
		return
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.pool.counts.StaleReleases++
}
