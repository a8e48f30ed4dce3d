package lease

import "container/heap"

// queue holds the leases of one state, ordered by the time of their next action. It is a heap in which
// each lease knows its index.
type queue []*entry

var _ heap.Interface = (*queue)(nil)

// next returns the first lease and its time, nil if the queue is empty.
func (q queue) next() (*entry, instant) {
	if len(q) == 0 {
		return nil, never
	}
	return q[0], q[0].when
}

func (q *queue) push(l *entry, when instant) {
	l.when = when
	heap.Push(q, l)
}

func (q *queue) remove(l *entry) { heap.Remove(q, int(l.index)) }

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool { return q[i].when < q[j].when }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = int32(i), int32(j)
}

// Push implements heap.Interface.
func (q *queue) Push(l any) {
	last := l.(*entry)
	last.index = int32(len(*q))
	*q = append(*q, last)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	n := len(*q) - 1
	last := (*q)[n]
	(*q)[n] = nil // releases the lease's memory
	*q = (*q)[:n]
	return last
}
