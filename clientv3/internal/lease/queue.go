package lease

// queue holds the leases of one state, ordered by the time of their next action. It
// is a 4-ary heap, half as deep as a binary one. The times are stored in the heap,
// so an operation touches only the leases that move.
type queue []queued

type queued struct {
	when  instant
	lease *entry
}

const children = 4

// next returns the first lease and its time, nil if the queue is empty.
func (q queue) next() (*entry, instant) {
	if len(q) == 0 {
		return nil, never
	}
	return q[0].lease, q[0].when
}

func (q *queue) push(l *entry, when instant) {
	*q = append(*q, queued{})
	q.up(len(*q)-1, queued{when, l})
}

func (q *queue) remove(l *entry) {
	i, last := int(l.index), len(*q)-1
	moved := (*q)[last]
	(*q)[last] = queued{} // releases the lease's memory
	*q = (*q)[:last]
	if i == last {
		return
	}
	if i > 0 && moved.when < (*q)[(i-1)/children].when {
		q.up(i, moved)
	} else {
		q.down(i, moved)
	}
}

// up places an item at i or above it.
func (q queue) up(i int, item queued) {
	for i > 0 {
		parent := (i - 1) / children
		if q[parent].when <= item.when {
			break
		}
		q.put(i, q[parent])
		i = parent
	}
	q.put(i, item)
}

// down places an item at i or below it.
func (q queue) down(i int, item queued) {
	for {
		first := children*i + 1
		if first >= len(q) {
			break
		}
		least := first
		for child := first + 1; child < min(first+children, len(q)); child++ {
			if q[child].when < q[least].when {
				least = child
			}
		}
		if item.when <= q[least].when {
			break
		}
		q.put(i, q[least])
		i = least
	}
	q.put(i, item)
}

func (q queue) put(i int, item queued) {
	q[i] = item
	item.lease.index = int32(i)
}
