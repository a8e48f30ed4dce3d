//go:build experiment

package linear

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	etcd "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/official"
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
	result, err := Config{Config: cfg, PageDir: t.ArtifactDir()}.Run(ctx)
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
	result, err := Config{Config: cfg, PageDir: t.ArtifactDir(), Idempotent: true}.Run(ctx)
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
	result, err := Config{Config: soaktest.Fixed(t), PageDir: t.ArtifactDir(), connect: connect}.Run(t.Context())
	require.NoError(t, err)
	t.Log("\n" + result.String())
}
