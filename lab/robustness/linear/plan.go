package linear

import (
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

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

// snapshot reads all keys of a group.
var snapshot = model.Request{Kind: model.Snapshot, Then: []model.Act{read(0), read(1), read(2)}}

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
		return snapshot
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
	switch request.Kind {
	case model.Get, model.Put, model.Delete:
		return p.rng.IntN(2) == 0
	default:
		return false
	}
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
