package load

import (
	"context"
	"math/rand/v2"
	"strconv"

	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
)

// caller makes the calls of one kind, one at a time.
type caller interface {
	// next returns the call to make, as far as it is known before it is sent.
	next() history.Call
	// send makes the call and fills in what came back.
	send(ctx context.Context, call *history.Call) error
	// learn records how the call ended.
	learn(call history.Call)
}

func (l *Load) newCaller(k history.Kind, index int, rng *rand.Rand) caller {
	switch k {
	case history.Put:
		return &putter{load: l, index: index}
	case history.Txn:
		return &incrementer{load: l, index: index}
	default:
		return &getter{load: l, kind: k, index: index, rng: rng}
	}
}

// getter reads a counter or a key that was put lately, with equal chance.
type getter struct {
	load  *Load
	kind  history.Kind
	index int
	rng   *rand.Rand
}

func (g *getter) next() history.Call {
	writer := g.rng.IntN(g.load.cfg.Callers)
	key := history.CounterOf(writer)
	if seq := g.load.recent[writer].Load(); seq >= 0 && g.rng.IntN(2) == 0 {
		key = history.Key{Space: history.Puts, Caller: writer, Seq: seq}
	}
	return history.Call{Kind: g.kind, Caller: g.index, Key: key}
}

func (g *getter) send(ctx context.Context, call *history.Call) error {
	a, err := g.load.services.Store.Get(ctx, call.Key.Path(g.load.cfg.Prefix), g.kind == history.SerializableGet)
	call.Revision, call.Read = a.Revision, a.Read
	return err
}

func (g *getter) learn(history.Call) {}

// putter writes a new key with each call.
type putter struct {
	load  *Load
	index int
	seq   int64
}

func (p *putter) next() history.Call {
	key := history.Key{Space: history.Puts, Caller: p.index, Seq: p.seq}
	p.seq++
	return history.Call{Kind: history.Put, Caller: p.index, Key: key}
}

func (p *putter) send(ctx context.Context, call *history.Call) error {
	revision, err := p.load.services.Store.Put(ctx, call.Key.Path(p.load.cfg.Prefix), call.Key.Value())
	call.Revision = revision
	return err
}

func (p *putter) learn(call history.Call) {
	if call.Outcome == history.OK {
		p.load.recent[p.index].Store(call.Key.Seq)
	}
}

// incrementer increments its counter from the value that it knew last. When an
// increment ended without an answer it tries the same value again: if it had
// been applied, the comparison does not hold and the answer tells the value.
type incrementer struct {
	load  *Load
	index int
	seq   int64
	value int64
}

func (i *incrementer) next() history.Call {
	key := history.Key{Space: history.Txns, Caller: i.index, Seq: i.seq}
	i.seq++
	return history.Call{Kind: history.Txn, Caller: i.index, Key: key, Want: i.value}
}

func (i *incrementer) send(ctx context.Context, call *history.Call) error {
	prefix := i.load.cfg.Prefix
	a, err := i.load.services.Store.Increment(ctx, client.Increment{
		Counter: history.CounterOf(i.index).Path(prefix), Want: call.Want,
		Key: call.Key.Path(prefix), Value: call.Key.Value(),
	})
	call.Revision, call.Applied, call.Read = a.Revision, a.Applied, a.Read
	return err
}

func (i *incrementer) learn(call history.Call) {
	switch {
	case call.Outcome != history.OK:
	case call.Applied:
		i.value = call.Want + 1
	case !call.Read.Found:
		i.value = 0
	default:
		// A value that is no number is for the checker to report; the counter
		// then stays refused.
		if v, err := strconv.ParseInt(call.Read.Value, 10, 64); err == nil {
			i.value = v
		}
	}
}
