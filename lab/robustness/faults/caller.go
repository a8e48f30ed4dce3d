package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/lab/robustness/report"
)

// The keys of a group: the key of a caller of puts, the counter of a caller of txns, and the key that the latter writes
// together with it.
const (
	putKey = iota
	counterKey
	txnKey
)

// kindsOfKeys are their names.
var kindsOfKeys = [model.Keys]string{putKey: "put", counterKey: "counter", txnKey: "txn"}

// groupLife is how long the callers of a number use a group, whose history is checked as a whole.
const groupLife = time.Second

// groups has the keys that the callers of each number use now.
type groups struct {
	prefix string

	mu  sync.Mutex
	now []group
}

type group struct {
	epoch int
	keys  *[model.Keys]string
}

// at returns the group of a caller's number at a moment.
func (g *groups) at(index int, now time.Duration) group {
	g.mu.Lock()
	defer g.mu.Unlock()
	current := &g.now[index]
	if epoch := int(now / groupLife); current.keys == nil || epoch > current.epoch {
		*current = group{epoch, new([model.Keys]string)}
		for key, kind := range kindsOfKeys {
			current.keys[key] = fmt.Sprintf("%s%s/%d/%d", g.prefix, kind, index, epoch)
		}
	}
	return *current
}

// caller makes the calls of one kind, one at a time.
type caller struct {
	load  *load
	kind  model.Kind
	index int
	rng   *rand.Rand
	seq   int // of the next value that it writes
	// own is the group that a caller of txns knows the counter of, at its latest revision. When a txn ended without an answer
	// the caller compares with the same revision again: if it had been applied, the comparison does not hold and the answer
	// has the revision.
	own     group
	counter int64
}

// run makes one call after the other until ctx ends. The first pause is a random part of a whole one, so that callers do not call
// in lockstep.
func (c *caller) run(ctx context.Context) {
	between := c.load.run.cfg.Pause
	for wait := pace.Between(c.rng, 0, between); pause.For(ctx, wait) == nil; wait = between {
		c.call()
	}
}

// call makes a call, which ends by its deadline, and records it.
func (c *caller) call() {
	defer c.load.calls.add()()
	r := c.load.run
	call := c.next()
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.CallTimeout)
	defer cancel()
	call.Operation, call.Failure = client.Do(ctx, r.conn.KV, *call.Keys, call.Operation, r.env.Now)
	if call.Failure == nil {
		c.learn(call.Response)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.Calls = append(r.rec.Calls, call)
}

// next returns the next call. A get reads what another caller puts or its counter, with equal chance.
func (c *caller) next() report.Call {
	group, now := c.index, c.load.run.env.Now()
	if !c.kind.Writes() {
		group = c.rng.IntN(len(c.load.groups.now))
	}
	g := c.load.groups.at(group, now)
	call := report.Call{Keys: g.keys, Operation: model.Operation{Client: slices.Index(report.Kinds, c.kind)*len(c.load.groups.now) + c.index}}
	if c.kind.Writes() {
		if g != c.own {
			c.own, c.counter = g, 0
		}
		call.Request = c.write()
	} else {
		call.Request = model.Request{Kind: c.kind, Then: reads[c.rng.IntN(len(reads))]}
	}
	return call
}

// reads has the reads of what is put, and of a counter.
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
