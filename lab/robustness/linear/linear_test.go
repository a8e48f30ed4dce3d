//go:build experiment

package linear

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	etcd "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/official"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/internal/soaktest"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

var kinds = []model.Kind{model.Get, model.SerializableGet, model.Snapshot, model.Put, model.Delete, model.Txn}

// sum returns how many operations had an outcome.
func sum(c *robustness.Counts, outcome model.Outcome, kinds ...model.Kind) int {
	n := 0
	for _, kind := range kinds {
		n += c.Of(string(kind), outcome.String())
	}
	return n
}

// enough operations have some of every kind and outcome among them, and writes that shared an RPC: of 300 writes two do.
func enough(c *robustness.Counts) bool {
	return sum(c, model.Answered, kinds...) >= 1500 && c.Of("writes", grouped) > 0
}

// TestLinear is the short form of "quorate-lab soak linear".
func TestLinear(t *testing.T) {
	ctx, cfg := soaktest.Short(t, enough)
	result, err := Config{Config: cfg}.Run(ctx)
	require.NoError(t, err)
	require.True(t, result.Verdict.OK(), "%v", result)
	t.Log("\n" + result.String())
	for _, kind := range kinds {
		assert.Positive(t, sum(result.Counts, model.Answered, kind), "no answer to a %v", kind)
	}
	assert.Positive(t, result.Counts.Of("txn", "comparisons failed"))
	assert.Positive(t, result.Counts.Of("writes", grouped), "no writes shared an RPC")
	assert.Positive(t, result.Counts.Of("gets", "answered from memory"))
	assert.Positive(t, sum(result.Counts, model.Failed, model.Put, model.Delete, model.Txn), "no write was refused")
	assert.Positive(t, sum(result.Counts, model.Unknown, model.Put, model.Delete, model.Txn), "no outcome was unknown")
}

// TestIdempotentWrites is TestLinear with idempotent writes. Only those whose context ends have an unknown outcome.
func TestIdempotentWrites(t *testing.T) {
	ctx, cfg := soaktest.Short(t, enough)
	result, err := Config{Config: cfg, Idempotent: true}.Run(ctx)
	require.NoError(t, err)
	t.Log("\n" + result.String())
	require.True(t, result.Verdict.OK(), "%v", result)
	assert.Positive(t, sum(result.Counts, model.Answered, model.Put, model.Delete, model.Txn))
}

// officialClient makes shared and cached operations as it makes others.
type officialClient struct {
	client.KV
	*etcd.Client
}

// TestOfficial shows how the official client does under the same faults. What it breaks is no failure of ours.
func TestOfficial(t *testing.T) {
	connect := func(endpoints []string) (Client, error) {
		c, err := etcd.New(etcd.Config{Endpoints: endpoints, Logger: zap.NewNop()})
		if err != nil {
			return nil, err
		}
		return officialClient{official.NewKV(c.KV), c}, nil
	}
	result, err := Config{Config: soaktest.Fixed(t), connect: connect}.Run(t.Context())
	require.NoError(t, err)
	t.Log("\n" + result.String())
}

// leased makes all operations through the leasing cache of a client.
type leased struct {
	*clientv3.Client

	kv         clientv3.KV
	all        *leasedClients
	fromMemory atomic.Int64
	closers    []func() error
}

// leasedClients are all clients of a run with leasing caches.
type leasedClients struct {
	newest atomic.Int64 // revision of the answers to all
	cutOff sync.Mutex   // held while one is cut off, so that the others write
}

const (
	// leasedCall bounds an operation, so that a client that is cut off goes on to the next one.
	leasedCall = 400 * time.Millisecond
	// cutOffTime is longer than the lease of a session of leasedTTL seconds lasts.
	cutOffTime, leasedTTL = 2500 * time.Millisecond, 1
	// leasedWrites is how many of a hundred writes are made: with few, most gets are answered from memory.
	leasedWrites = 5
)

func (s *leasedClients) connect(endpoints []string) (_ Client, err error) {
	c := &leased{all: s}
	var links []*link.Link
	for i, endpoint := range endpoints {
		l, err := link.Listen(strings.TrimPrefix(endpoint, "http://"))
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		endpoints[i], links, c.closers = "http://"+l.Addr(), append(links, l), append(c.closers, l.Close)
	}
	if c.Client, err = quorate.Dial(clientv3.Config{Endpoints: endpoints}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.closers = append(c.closers, c.Client.Close)
	kv, end, err := leasing.NewKV(c.Client, "/leasing/", concurrency.WithTTL(leasedTTL))
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cut := robustness.Go(1, func(int) { s.disturb(ctx, links) })
	c.kv, c.closers = kv, append(c.closers, func() error {
		cancel()
		<-cut
		end()
		return nil
	})
	return c, nil
}

// disturb cuts a client off now and then, for longer than its lease lasts.
func (s *leasedClients) disturb(ctx context.Context, links []*link.Link) {
	rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
	for pause.For(ctx, pace.Between(rng, 0, cutOffTime)) == nil {
		s.cutOff.Lock()
		for _, l := range links {
			l.Blackhole(link.Both)
		}
		_ = pause.For(ctx, cutOffTime) // the condition of the loop sees the end
		for _, l := range links {
			l.Heal()
		}
		s.cutOff.Unlock()
	}
}

// Do implements client.KV. An answer from memory has the header of the client's last answer from a server, whose revision may be
// old. The answer must also be true at the newest revision that any client knew when the call was made, which replaces it.
func (c *leased) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	if request.Kind.Writes() && rand.IntN(100) >= leasedWrites {
		return model.Response{}, rpctypes.ErrTooManyRequests
	}
	ctx, cancel := context.WithTimeout(ctx, leasedCall)
	defer cancel()
	known := c.all.newest.Load()
	response, err := quorate.NewKV(c.kv).Do(ctx, keys, request)
	if err != nil {
		return response, err
	}
	if response.Revision < known && request.Kind != model.SerializableGet && !request.Wrote(response) {
		response.Revision = known
		c.fromMemory.Add(1)
	}
	for newest := known; newest < response.Revision && !c.all.newest.CompareAndSwap(newest, response.Revision); {
		newest = c.all.newest.Load()
	}
	return response, nil
}

// FromMemory returns how many reads were certainly answered from memory.
func (c *leased) FromMemory() int64 { return c.fromMemory.Load() }

func (c *leased) Close() (err error) {
	for len(c.closers) > 0 {
		last := len(c.closers) - 1
		err = errors.Join(err, c.closers[last]())
		c.closers = c.closers[:last]
	}
	return err
}

// TestLeasing has clients with leasing caches lose their sessions.
func TestLeasing(t *testing.T) {
	ctx, cfg := soaktest.Short(t, func(c *robustness.Counts) bool { return sum(c, model.Answered, kinds...) >= 1500 })
	result, err := Config{Config: cfg, connect: new(leasedClients).connect}.Run(ctx)
	require.NoError(t, err)
	t.Log("\n" + result.String())
	require.True(t, result.Verdict.OK(), "%v", result)
	assert.Positive(t, sum(result.Counts, model.Answered, model.Put, model.Delete, model.Txn))
	assert.Positive(t, result.Counts.Of("gets", "answered from memory"))
}
