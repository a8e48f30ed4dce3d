package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
)

// counterOf returns the counter of a caller of txns.
func counterOf(prefix string, caller int) string { return fmt.Sprintf("%scounter/%d", prefix, caller) }

// caller makes the calls of one kind, one at a time.
type caller struct {
	load  *load
	kind  history.Kind
	index int
	rng   *rand.Rand
	seq   int // of the next key that it writes
	// counter is the last known value of the counter that a caller of txns increments. When an increment
	// ended without an answer the caller tries the same value again: if it had been applied, the
	// comparison does not hold and the answer has the value.
	counter int64
}

// run makes one call after the other until the load is stopped. The first pause
// is a random part of a whole one, so that callers do not march in step.
func (c *caller) run(ctx context.Context) {
	between := c.load.run.cfg.Pause
	pause := time.NewTimer(time.Duration(c.rng.Int64N(int64(between) + 1)))
	defer pause.Stop()
	for {
		select {
		case <-c.load.stopped:
			return
		case <-pause.C:
		}
		c.call(ctx)
		pause.Reset(between)
	}
}

// call makes a call and records it. It is cut short when ctx ends.
func (c *caller) call(ctx context.Context) {
	defer c.load.calls.add()()
	r, call := c.load.run, c.next()
	call.Start = r.env.Now()
	limited, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	call.Err = c.send(limited, &call)
	cancel()
	call.End = r.env.Now()
	call.Outcome = history.OutcomeOf(call.Kind.Writes(), call.Err)
	if call.Err != nil && ctx.Err() != nil {
		call.Outcome = history.Abandoned
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.Calls = append(r.rec.Calls, call)
}

// next returns the next call, as far as it is known before it is sent. A get reads a counter or a key that was put lately,
// with equal chance.
func (c *caller) next() history.Call {
	call, prefix := history.Call{Kind: c.kind, Caller: c.index}, c.load.run.prefix
	switch c.kind {
	case history.Put:
		call.Key = fmt.Sprintf("%sput/%d/%d", prefix, c.index, c.seq)
	case history.Txn:
		call.Key = fmt.Sprintf("%stxn/%d/%d", prefix, c.index, c.seq)
		call.Counter, call.Want = counterOf(prefix, c.index), c.counter
	default:
		writer := c.rng.IntN(len(c.load.putLatest))
		call.Key = counterOf(prefix, writer)
		if put := c.load.putLatest[writer].Load(); put != nil && c.rng.IntN(2) == 0 {
			call.Key = *put
		}
	}
	c.seq++
	return call
}

// send makes a call and fills in what was answered.
func (c *caller) send(ctx context.Context, call *history.Call) error {
	store := c.load.run.conn.Store
	var a client.Answer
	var err error
	switch c.kind {
	case history.Put:
		a.Revision, err = store.Put(ctx, call.Key, call.Key)
		if err == nil {
			c.load.putLatest[c.index].Store(&call.Key)
		}
	case history.Txn:
		a, err = store.Increment(ctx, client.Increment{Counter: call.Counter, Want: call.Want, Key: call.Key, Value: call.Key})
		if err == nil {
			c.learn(a)
		}
	default:
		a, err = store.Get(ctx, call.Key, c.kind == history.SerializableGet)
	}
	call.Revision, call.Applied, call.Read = a.Revision, a.Applied, a.Read
	return err
}

// learn takes the value of the counter from the answer to an increment.
func (c *caller) learn(a client.Answer) {
	switch {
	case a.Applied:
		c.counter++
	case !a.Read.Found:
		c.counter = 0
	default:
		// A value that is no number is for the checker to report; the counter
		// then stays refused.
		if v, err := strconv.ParseInt(a.Read.Value, 10, 64); err == nil {
			c.counter = v
		}
	}
}
