package scenario

import (
	"sync"

	"github.com/quorate/quorate/lab/robustness/history"
)

// calls keeps the calls of the load.
type calls struct {
	mu     sync.Mutex
	all    []history.Call
	newest int64 // revision of the linearizable answers
}

func (c *calls) newestRevision() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest
}

// add adds a call that has ended. newest is the newest revision that was known when it was invoked.
func (c *calls) add(call *history.Call, newest int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case call.Outcome != history.OK:
	case call.Kind == history.SerializableGet:
		call.Behind = max(0, newest-call.Revision)
	default:
		c.newest = max(c.newest, call.Revision)
	}
	c.all = append(c.all, *call)
}

// Invoke implements [load.Recorder]: the call is kept and counted.
func (r *run) Invoke(call history.Call) (returned func(history.Call)) {
	newest := r.calls.newestRevision()
	r.meter.Invoke(call)
	return func(call history.Call) {
		r.calls.add(&call, newest)
		r.meter.Observe(call)
	}
}
