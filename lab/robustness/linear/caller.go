package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// callPause is how long a caller waits at most between two operations.
const callPause = 40 * time.Millisecond

// caller makes one operation after the other.
type caller struct {
	number int
	client Client
	shared Client // for the operations that share RPCs
	pool   *pool
	rng    *rand.Rand
	values int
}

// run calls until ctx ends. An operation that is under way then has its own time to
// come to an end.
func (c *caller) run(ctx context.Context) {
	for pause.For(ctx, pace.Between(c.rng, 0, callPause)) == nil {
		c.call()
	}
}

func (c *caller) call() {
	keys, knows := c.pool.enter(c.rng)
	draw := planner{c.rng, c.value}
	request := draw.request(knows)
	kv := c.client
	if draw.shares(request) {
		request.Shared, kv = true, c.shared
	}
	request.Cached = !request.Shared && draw.cached(request)
	ctx, cancel := context.WithTimeout(context.Background(), draw.timeout())
	defer cancel()
	op, _ := client.Do(ctx, kv, keys, model.Operation{Client: c.number, Request: request}, c.pool.now)
	if op.Outcome == model.Unknown && ctx.Err() == nil {
		c.pool.counts.Add("writes", unknownEarly, 1)
	}
	c.pool.leave(keys, op)
}

// value returns a value that no other caller writes.
func (c *caller) value() string {
	c.values++
	return fmt.Sprintf("%d.%d", c.number, c.values)
}

// groupLife is how long callers use a group of keys: the time to check its history grows with its length.
const groupLife = 2 * time.Second

// livingGroups is how many groups callers use at a time: few, so that they meet.
const livingGroups = 3

// What is counted of writes.
const (
	grouped      = "with the revision of another one"
	unknownEarly = "unknown before their contexts ended"
)

// keyPrefix is what all keys of groups begin with.
const keyPrefix = "/linear/"

// pool has what was asked of each group of keys, and what is known of it, and counts what callers do.
type pool struct {
	now    func() time.Duration
	counts *robustness.Counts

	mu         sync.Mutex
	operations map[[model.Keys]string][]model.Operation
	known      map[[model.Keys]string]known
	wrote      map[int64]bool // revisions of writes that were answered
}

func newPool(now func() time.Duration, counts *robustness.Counts) *pool {
	return &pool{
		now: now, counts: counts, operations: map[[model.Keys]string][]model.Operation{}, known: map[[model.Keys]string]known{},
		wrote: map[int64]bool{},
	}
}

// enter returns a group for one operation, and what is known of its keys.
func (p *pool) enter(rng *rand.Rand) (keys [model.Keys]string, knows known) {
	living, epoch := rng.IntN(livingGroups), p.now()/groupLife
	for key := range keys {
		keys[key] = fmt.Sprintf("%s%d.%d/%d", keyPrefix, epoch, living, key)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return keys, p.known[keys]
}

// leave adds an operation that has ended to the history of its group.
func (p *pool) leave(keys [model.Keys]string, op model.Operation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Add(string(op.Request.Kind), op.Outcome.String(), 1)
	if op.Outcome == model.Answered && !op.Response.Succeeded {
		p.counts.Add(string(op.Request.Kind), "comparisons failed", 1)
	}
	if op.Outcome == model.Answered && op.Request.Wrote(op.Response) {
		if p.wrote[op.Response.Revision] {
			p.counts.Add("writes", grouped, 1)
		}
		p.wrote[op.Response.Revision] = true
	}
	knows := p.known[keys]
	knows.learn(op)
	p.known[keys] = knows
	p.operations[keys] = append(p.operations[keys], op)
}
