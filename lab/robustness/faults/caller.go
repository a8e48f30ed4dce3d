package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// The keys of a group: the key of a caller of puts, the counter of a caller of txns, and the key that the latter writes
// together with it.
const (
	putKey = iota
	counterKey
	txnKey
)

// keyNames are the names of these keys.
var keyNames = [model.Keys]string{putKey: "put", counterKey: "counter", txnKey: "txn"}

// groupLife is how long a group is used; its history is checked as a whole.
const groupLife = time.Second

// group is the keys of the callers with an index, one of each kind, for an epoch of groupLife.
type group struct{ index, epoch int }

// keys returns the keys of a group.
func (g group) keys(prefix string) (keys [model.Keys]string) {
	for key, name := range keyNames {
		keys[key] = fmt.Sprintf("%s%s/%d/%d", prefix, name, g.index, g.epoch)
	}
	return keys
}

// caller makes the calls of one kind, one at a time.
type caller struct {
	run   *run
	kind  model.Kind
	index int
	rng   *rand.Rand
	seq   int           // of the next value that it writes
	busy  chan struct{} // full while a call is under way
	calls []call
	// own is the group of the latest txn of a caller of txns, and counter the revision of that group's counter as far as the
	// caller knows. After a txn without an answer it compares with the same revision again: if that txn was executed, the
	// comparison fails, and the answer has the new revision.
	own     group
	counter int64
}

// work makes one call after the other until ctx ends. The first pause is a random part of a whole one, so that callers do not call
// in lockstep.
func (c *caller) work(ctx context.Context) {
	between := c.run.cfg.Pause
	for wait := pace.Between(c.rng, 0, between); pause.For(ctx, wait) == nil; wait = between {
		c.busy <- struct{}{}
		c.calls = append(c.calls, c.call())
		<-c.busy
	}
}

// settle returns when the call under way has ended, which it does by its deadline at the latest, or with the error of ctx.
func (c *caller) settle(ctx context.Context) error {
	select {
	case c.busy <- struct{}{}:
		<-c.busy
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call makes a call.
func (c *caller) call() call {
	r := c.run
	next := c.next(r.env.Now())
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.CallTimeout)
	defer cancel()
	next.Operation, next.failure = client.Do(ctx, r.conn.KV, next.group.keys(r.prefix), next.Operation, r.env.Now)
	if next.failure == nil {
		c.learn(next.Response)
	}
	return next
}

// next returns the next call. A get reads what another caller puts or its counter, with equal chance.
func (c *caller) next(now time.Duration) call {
	callers := c.run.cfg.Callers
	next := call{
		group:     group{c.index, int(now / groupLife)},
		Operation: model.Operation{Client: slices.Index(kinds, c.kind)*callers + c.index},
	}
	if c.kind.Writes() {
		if next.group != c.own {
			c.own, c.counter = next.group, 0
		}
		next.Request = c.write()
	} else {
		next.group.index = c.rng.IntN(callers)
		next.Request = model.Request{Kind: c.kind, Then: reads[c.rng.IntN(len(reads))]}
	}
	return next
}

// reads has the read of the key that is put, and that of the counter.
var reads = [...][]model.Act{{{Verb: model.Read, Key: putKey}}, {{Verb: model.Read, Key: counterKey}}}

// write returns the next put or txn.
func (c *caller) write() model.Request {
	c.seq++
	value := fmt.Sprintf("%s %d.%d", c.kind, c.index, c.seq)
	if c.kind == model.Put {
		return model.Request{Kind: model.Put, Then: []model.Act{{Verb: model.Write, Key: putKey, Value: value}}}
	}
	return model.Request{
		Kind: model.Txn, If: []model.Compare{{Key: counterKey, Target: model.ModRevision, Number: c.counter}},
		Then: []model.Act{{Verb: model.Write, Key: counterKey, Value: value}, {Verb: model.Write, Key: txnKey, Value: value}},
		Else: reads[counterKey],
	}
}

// learn takes the revision of the counter from the answer to a txn.
func (c *caller) learn(response model.Response) {
	switch {
	case c.kind != model.Txn:
	case response.Succeeded:
		c.counter = response.Revision
	default:
		c.counter = response.Results[0].KV.ModRevision
	}
}
