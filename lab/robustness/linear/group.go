package linear

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// A group lives until it is of one of these: the time to check its history grows with its length.
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

// leave takes an operation that has ended into the history of its group.
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
