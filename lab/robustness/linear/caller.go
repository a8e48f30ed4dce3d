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
	now    func() time.Duration
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
	g, knows := c.pool.enter(c.rng)
	draw := planner{c.rng, c.value}
	request := draw.request(knows)
	kv := c.client
	if draw.shares(request) {
		request.Shared, kv = true, c.shared
	}
	request.Cached = !request.Shared && draw.cached(request)
	ctx, cancel := context.WithTimeout(context.Background(), draw.timeout())
	defer cancel()
	op, _ := client.Do(ctx, kv, g.keys, model.Operation{Client: c.number, Request: request}, c.now)
	if op.Outcome == model.Unknown && ctx.Err() == nil {
		c.pool.counts.Add("writes", unknownEarly, 1)
	}
	c.pool.leave(g, op)
}

// value returns a value that no other caller writes.
func (c *caller) value() string {
	c.values++
	return fmt.Sprintf("%d.%d", c.number, c.values)
}

// A group lives until it reaches one of these bounds: the time to check its history grows with its length.
const (
	longestLife    = 3 * time.Second
	mostOperations = 400
)

// livingGroups is how many groups callers use at a time: few, so that they meet.
const livingGroups = 3

// What is counted of writes.
const (
	grouped      = "with the revision of another one"
	unknownEarly = "unknown before their contexts ended"
)

// keyPrefix is what all keys of groups begin with.
const keyPrefix = "/linear/"

// group is a few keys and everything that was asked of them.
type group struct {
	keys       [model.Keys]string
	started    time.Duration
	operations []model.Operation
	known      known
}

// due reports whether the group has lived long enough.
func (g *group) due(now time.Duration) bool {
	return now-g.started >= longestLife || len(g.operations) >= mostOperations
}

// pool has the groups that callers use and have used, and counts what they do.
type pool struct {
	now    func() time.Duration
	counts *robustness.Counts

	mu     sync.Mutex
	groups []*group       // the living ones are the first
	wrote  map[int64]bool // revisions of writes that were answered
}

func newPool(now func() time.Duration, counts *robustness.Counts) *pool {
	p := &pool{now: now, counts: counts, wrote: map[int64]bool{}}
	for range livingGroups {
		p.groups = append(p.groups, p.newGroup())
	}
	return p
}

func (p *pool) newGroup() *group {
	g := &group{started: p.now()}
	for key := range g.keys {
		g.keys[key] = fmt.Sprintf("%s%d/%d", keyPrefix, len(p.groups), key)
	}
	return g
}

// enter returns a group for one operation, and what is known of its keys.
func (p *pool) enter(rng *rand.Rand) (*group, known) {
	p.mu.Lock()
	defer p.mu.Unlock()
	living := rng.IntN(livingGroups)
	if old := p.groups[living]; old.due(p.now()) {
		p.groups[living] = p.newGroup()
		p.groups = append(p.groups, old)
	}
	g := p.groups[living]
	return g, g.known
}

// leave adds an operation that has ended to the history of its group.
func (p *pool) leave(g *group, op model.Operation) {
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
	g.known.learn(op)
	g.operations = append(g.operations, op)
}
