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

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/batch"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
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

	// callers is how many operations are under way at a time. Default 12.
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

// Client is the client under test. All Shared operations are made on one client.
type Client interface {
	client.KV
	// Close ends the client.
	Close() error
}

// connect connects through a client of Quorate with its default policies.
func connect(endpoints []string, idempotentWrites bool) (Client, error) {
	c, err := quorate.Dial(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		return nil, err
	}
	q := clientUnderTest{Client: c, closeAll: c.Close}
	if idempotentWrites {
		if q.closeAll, err = quorate.WriteOnce(c); err != nil {
			return nil, err
		}
	}
	q.sharing = sharing(c.KV)
	if q.cache, err = newCache(c); err != nil {
		return nil, errors.Join(err, q.closeAll())
	}
	return q, nil
}

// newCache returns a cache of all keys of groups, over the KV and the Watcher of a client.
func newCache(c *clientv3.Client) (*cache.Cache, error) {
	return cache.New(c, cache.Config{Prefixes: []string{keyPrefix}, ProbeInterval: time.Second})
}

// sharing returns the KV for operations that share RPCs: two that are under way at once do.
func sharing(kv clientv3.KV) clientv3.KV {
	return batch.New(slow{kv}, batch.Config{JoinReads: true, GroupWrites: true, MaxAlone: 1})
}

// slow is a KV that keeps each response for a while, so that other operations begin after it was
// sent and before it is seen.
type slow struct{ clientv3.KV }

// responsePause is how long a response is kept.
const responsePause = 10 * time.Millisecond

func (s slow) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	response, err := s.KV.Do(ctx, op)
	_ = pause.For(ctx, responsePause) // the response counts, although the context may have ended
	return response, err
}

// clientUnderTest has the KVs of a client that operations can use.
type clientUnderTest struct {
	*clientv3.Client

	sharing  clientv3.KV
	cache    *cache.Cache
	closeAll func() error
}

// FromMemory returns how many gets the cache has answered from memory.
func (c clientUnderTest) FromMemory() int64 { return c.cache.Stats().Hits }

func (c clientUnderTest) Close() error {
	c.cache.Close()
	return c.closeAll()
}

// Do implements [client.KV].
func (c clientUnderTest) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	kv := c.KV
	switch {
	case request.Shared:
		kv = c.sharing
	case request.Cached:
		kv = c.cache
	}
	return quorate.NewKV(kv).Do(ctx, keys, request)
}
