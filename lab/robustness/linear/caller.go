package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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

// run calls until ctx ends. An operation that is under way then has a deadline of its own.
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
	grouped      = "with the revision of another one" // so they shared an RPC
	unknownEarly = "unknown before their contexts ended"
)

// keyPrefix is what all keys of groups begin with.
const keyPrefix = "/linear/"

// pool has the history of each group of keys and what is known of them, and counts what callers do.
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

// leave adds an operation that has ended to the history of its group, and counts it.
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

// known is what callers know of the keys of a group, so that comparisons
// have a fair chance to hold.
type known [model.Keys]struct {
	// latest is the key at revision, as far as it is known: the version is 0 after a
	// put whose response did not include it.
	latest   model.KV
	revision int64
	// unknownValue is the last value whose put ended in an unknown outcome.
	unknownValue string
}

// learn records what an operation shows.
func (k *known) learn(op model.Operation) {
	if op.Outcome == model.Unknown {
		for _, act := range op.Request.Then {
			if act.Verb == model.Write {
				k[act.Key].unknownValue = act.Value
			}
		}
	}
	if op.Outcome != model.Answered {
		return
	}
	acts := op.Request.Branch(op.Response.Succeeded)
	for i, act := range acts[:min(len(acts), len(op.Response.Results))] {
		known := &k[act.Key]
		if op.Response.Revision < known.revision {
			continue
		}
		known.revision = op.Response.Revision
		switch seen := op.Response.Results[i].KV; act.Verb {
		case model.Read:
			known.latest = seen
		case model.Write:
			known.latest = model.KV{Value: act.Value, ModRevision: op.Response.Revision}
			if act.Prev {
				known.latest.Version = seen.Version + 1
			}
		case model.Remove:
			known.latest = model.KV{}
		}
	}
}

// planner draws operations.
type planner struct {
	rng *rand.Rand
	// value returns a value that was not drawn before.
	value func() string
}

func read(key int) model.Act { return model.Act{Verb: model.Read, Key: key} }

// request draws an operation.
func (p planner) request(knows known) model.Request {
	key := p.rng.IntN(model.Keys)
	switch n := p.rng.IntN(100); {
	case n < 22:
		return model.Request{Kind: model.Get, Then: []model.Act{read(key)}}
	case n < 30:
		return model.Request{Kind: model.SerializableGet, Then: []model.Act{read(key)}}
	case n < 40:
		return model.Request{Kind: model.Snapshot, Then: []model.Act{read(0), read(1), read(2)}}
	case n < 64:
		return model.Request{Kind: model.Put, Then: []model.Act{p.put(key)}}
	case n < 72:
		return model.Request{Kind: model.Delete, Then: []model.Act{p.remove(key)}}
	default:
		return p.txn(key, knows)
	}
}

// shares draws whether an operation shares an RPC, if it is one that can.
func (p planner) shares(request model.Request) bool {
	return slices.Contains([]model.Kind{model.Get, model.Put, model.Delete}, request.Kind) && p.rng.IntN(2) == 0
}

// cached draws whether a get goes through a cache.
func (p planner) cached(request model.Request) bool {
	return (request.Kind == model.Get || request.Kind == model.SerializableGet) && p.rng.IntN(3) > 0
}

func (p planner) put(key int) model.Act {
	return model.Act{Verb: model.Write, Key: key, Value: p.value(), Prev: p.rng.IntN(2) == 0, MissingLease: p.rng.IntN(40) == 0}
}

func (p planner) remove(key int) model.Act {
	return model.Act{Verb: model.Remove, Key: key, Prev: p.rng.IntN(2) == 0}
}

// txn draws a transaction over a key and sometimes another.
func (p planner) txn(key int, knows known) model.Request {
	other := (key + 1 + p.rng.IntN(model.Keys-1)) % model.Keys
	request := model.Request{
		Kind: model.Txn,
		If:   []model.Compare{p.compare(key, knows)},
		Then: []model.Act{p.put(key)},
		Else: []model.Act{read(key)},
	}
	switch p.rng.IntN(7) {
	case 0: // reads what it overwrites
		request.Then = []model.Act{read(key), p.put(key)}
	case 1: // writes two keys
		request.Then = append(request.Then, p.put(other))
	case 2: // compares one key and writes another
		request.Then = []model.Act{p.put(other)}
	case 3: // compares two keys
		request.If = append(request.If, p.compare(other, knows))
	case 4: // moves a value
		request.Then = []model.Act{p.remove(key), p.put(other)}
	case 5: // writes either way
		request.Else = []model.Act{p.put(key), read(other)}
	default:
	}
	return request
}

// compare draws a comparison with the known state of a key, or with one that it may
// have now.
func (p planner) compare(key int, knows known) model.Compare {
	known := knows[key]
	c := model.Compare{Key: key, Target: model.CreateRevision, NotEqual: p.rng.IntN(12) == 0}
	switch n := p.rng.IntN(4); {
	case known.unknownValue != "" && n == 0:
		c.Target, c.Value = model.Value, known.unknownValue
	case known.latest == (model.KV{}):
	case known.latest.Version > 0 && n == 1:
		c.Target, c.Number = model.Version, known.latest.Version
	case n == 2:
		c.Target, c.Value = model.Value, known.latest.Value
	default:
		c.Target, c.Number = model.ModRevision, known.latest.ModRevision
	}
	return c
}

const (
	// callTimeout is how long most operations may take; a fault that holds all of the
	// cluster up for longer makes outcomes unknown.
	callTimeout = 3 * time.Second
	// shortestCall and longestShortCall bound how long the others may take, about
	// what an operation takes if nothing is wrong, so that calls end on their way.
	shortestCall, longestShortCall = time.Millisecond, 15 * time.Millisecond
)

// timeout draws how long an operation may take.
func (p planner) timeout() time.Duration {
	if p.rng.IntN(12) == 0 {
		return pace.Between(p.rng, shortestCall, longestShortCall)
	}
	return callTimeout
}
