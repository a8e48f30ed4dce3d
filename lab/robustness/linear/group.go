package linear

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// A group lives until it is of one of these, so that its history can be checked: the
// time for that grows with its length, and doubles with every unknown outcome of which
// nothing can be found out.
const (
	longestLife    = 3 * time.Second
	mostOperations = 400
	mostUnknown    = 12
)

const (
	// livingGroups is how many groups callers use at a time: few, so that they meet.
	livingGroups = 3
	// waitingGroups is how many groups may wait to be checked before callers wait.
	waitingGroups = 64
)

// What is counted of writes.
const (
	grouped      = "with the revision of another one"
	unknownEarly = "unknown before their contexts ended"
	unseen       = "unknown and never seen"
)

// keyPrefix is what all keys of groups begin with.
const keyPrefix = "/linear/"

// group is a few keys and everything that was asked of them.
type group struct {
	number     int
	keys       [model.Keys]string
	born       time.Duration
	operations []model.Operation
	unknown    int
	underWay   int
	retired    bool
	known      known
}

// due reports whether the group has lived long enough.
func (g *group) due(now time.Duration) bool {
	return now-g.born >= longestLife || len(g.operations) >= mostOperations || g.unknown >= mostUnknown
}

// pool has the groups that callers use, and counts what they do.
type pool struct {
	now    func() time.Duration
	counts *robustness.Counts
	// retired gets every group that no caller uses any more. It is closed after the
	// last.
	retired chan *group
	claims  claims

	mu     sync.Mutex
	living [livingGroups]*group
	groups int
	wrote  claims // revisions of writes that were answered
}

func newPool(now func() time.Duration, counts *robustness.Counts) *pool {
	p := &pool{now: now, counts: counts, retired: make(chan *group, waitingGroups)}
	for i := range p.living {
		p.living[i] = p.newGroup()
	}
	return p
}

func (p *pool) newGroup() *group {
	g := &group{number: p.groups, born: p.now()}
	for key := range g.keys {
		g.keys[key] = fmt.Sprintf("%s%d/%d", keyPrefix, g.number, key)
	}
	p.groups++
	return g
}

// enter returns a group for one operation, and what is known of its keys. The
// operation must be handed to leave.
func (p *pool) enter(rng *rand.Rand) (*group, known) {
	p.mu.Lock()
	slot := rng.IntN(len(p.living))
	var idle *group
	if g := p.living[slot]; g.due(p.now()) {
		p.living[slot] = p.newGroup()
		g.retired = true
		if g.underWay == 0 {
			idle = g
		}
	}
	g := p.living[slot]
	g.underWay++
	knows := g.known
	p.mu.Unlock()
	if idle != nil {
		p.retired <- idle
	}
	return g, knows
}

// leave takes an operation that has ended into the history of its group.
func (p *pool) leave(g *group, op model.Operation) {
	p.mu.Lock()
	p.record(g, op)
	g.underWay--
	idle := g.retired && g.underWay == 0
	p.mu.Unlock()
	if idle {
		p.retired <- g
	}
}

// record takes down an operation.
func (p *pool) record(g *group, op model.Operation) {
	p.counts.Add(string(op.Request.Kind), op.Outcome.String(), 1)
	if op.Outcome == model.Unknown {
		g.unknown++
	}
	if op.Outcome == model.Answered && !op.Response.Succeeded {
		p.counts.Add(string(op.Request.Kind), "comparisons failed", 1)
	}
	g.known.learn(op)
	g.operations = append(g.operations, op)
	p.claim(op)
}

// claim claims the revisions of writes that an answer tells of.
func (p *pool) claim(op model.Operation) {
	if op.Outcome != model.Answered {
		return
	}
	if op.Request.Wrote(op.Response) {
		if !p.wrote.add(op.Response.Revision) {
			p.counts.Add("writes", grouped, 1)
		}
		p.claims.add(op.Response.Revision)
	}
	for _, result := range op.Response.Results {
		p.claims.add(result.KV.ModRevision)
	}
}

// close retires the groups that are left. No operation may be under way.
func (p *pool) close() {
	for _, g := range p.living {
		p.retired <- g
	}
	close(p.retired)
}
