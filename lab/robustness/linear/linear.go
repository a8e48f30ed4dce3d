// Package linear is the workload of package robustness that checks that what clients were answered is linearizable.
//
// It has callers that read, write, delete and compare a few keys through the client under
// test, some of it in RPCs that they share. Some callers have short deadlines, so that calls
// also end on their way.
//
// The keys live in groups, each for a few seconds, so that the history of a group is
// short enough to be checked, with the record of the store, by [model.Record.Check].
package linear

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// Known is the promise that the outcome of an idempotent write is known, unless its context has ended.
const Known robustness.Promise = "known"

const (
	// callersOfClient is how many callers share a client.
	callersOfClient = 3
	// returnTimeout bounds the time from the end of the faults until all calls have
	// returned. None has more than callTimeout.
	returnTimeout = callTimeout + 20*time.Second
)

// Config describes a run. Fields that are zero have their default.
type Config struct {
	robustness.Config
	// Idempotent makes the writes of clients idempotent, by clientv3/idempotent.
	Idempotent bool

	// callers is how many operations are under way at a time. Three callers share a client. Default 12.
	callers int
	// connect connects one client. Default [connect].
	connect func(endpoints []string) (Client, error)
}

// Run uses a cluster and checks the history, see [robustness.Run].
func (c Config) Run(ctx context.Context) (robustness.Outcome, error) {
	c.callers = cmp.Or(c.callers, 12)
	if c.connect == nil {
		c.connect = func(endpoints []string) (Client, error) { return connect(endpoints, c.Idempotent) }
	}
	return robustness.Run(ctx, c.Config, lab.Config{}, c.workload)
}

// workload has callers call until the faults are over, and checks what they were answered.
func (c Config) workload(ctx context.Context, env *robustness.Env) {
	clients := make([]Client, (c.callers+callersOfClient-1)/callersOfClient)
	for i := range clients {
		client, err := c.connect(env.Cluster.Endpoints())
		fatal.If(err, "connect a client")
		env.Cleanup(client.Close)
		clients[i] = client
	}
	pool := newPool(env.Now, env.Counts)
	called := robustness.Go(c.callers, func(i int) {
		c := caller{number: i, client: clients[i/callersOfClient], shared: clients[0], pool: pool, rng: env.Rand(uint64(i))}
		c.run(ctx)
	})
	err := env.InjectFaults(ctx)
	late := robustness.Await(called, returnTimeout, "calls do not return, long after their contexts have ended")
	fatal.If(errors.Join(err, late, env.Close()))
	through, events := env.Recorded()
	env.Counts.Add("store", "revisions", int(through))
	for _, c := range clients {
		if m, ok := c.(interface{ FromMemory() int64 }); ok {
			env.Counts.Add("gets", "answered from memory", int(m.FromMemory()))
		}
	}
	c.check(pool.operations, model.NewRecord(keyPrefix, events, through), &env.Outcome)
}

// check checks each group.
func (c Config) check(groups map[[model.Keys]string][]model.Operation, record *model.Record, out *robustness.Outcome) {
	if early := out.Counts.Of("writes", unknownEarly); c.Idempotent && early > 0 {
		out.Verdict.Add(Known, "%d writes ended in an unknown outcome before their contexts ended", early)
	}
	record.CheckAll(groups, out.Counts, &out.Verdict)
}
