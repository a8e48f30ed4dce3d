package otel

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
)

// tally counts calls without the SDK, whose Add takes longer than the rest of a hook. Each collection adds the count to the
// counter. After end no collection does, and each call adds its own.
type tally struct {
	counter metric.Int64Counter
	options []metric.AddOption

	n     atomic.Int64
	ended atomic.Bool
}

func (t *tally) inc() {
	t.n.Add(1)
	if t.ended.Load() {
		t.flush()
	}
}

func (t *tally) flush() {
	if n := t.n.Swap(0); n > 0 {
		t.counter.Add(context.Background(), n, t.options...)
	}
}

func (t *tally) end() {
	t.ended.Store(true)
	t.flush()
}

func (o *Observer) eachTally(do func(*tally)) {
	o.picked.Range(func(_, p any) bool {
		p.(picks).each(do)
		return true
	})
	o.methods.Range(func(_, m any) bool {
		do(&m.(*methodOptions).started)
		return true
	})
}
