package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness/history"
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
	client := c.client
	if draw.shares(request) {
		request.Shared, client = true, c.shared
	}
	request.Cached = !request.Shared && draw.cached(request)
	ctx, cancel := context.WithTimeout(context.Background(), draw.timeout())
	defer cancel()
	op := model.Operation{Client: c.number, Request: request, Call: c.now()}
	response, err := client.Do(ctx, g.keys, request)
	op.Return = c.now()
	op.Outcome = history.OutcomeOf(request.Kind.Writes(), err)
	op.Response = response
	if err != nil {
		op.Err = err.Error()
	}
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
