//go:build experiment

package linear

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// explained counts the writes of unknown outcome whose context has not ended.
type explained struct {
	Client

	unexplained *atomic.Int64
}

func (c explained) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	resp, err := c.Client.Do(ctx, keys, request)
	if outcome(request.Kind, err) == model.Unknown && ctx.Err() == nil {
		c.unexplained.Add(1)
	}
	return resp, err
}

// TestIdempotentWrites is TestLinear with idempotent writes. Only those whose context ends have an unknown outcome.
func TestIdempotentWrites(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var unexplained atomic.Int64
	result, err := Run(ctx, Config{
		Config:  robustness.Config{Duration: *duration + 3*time.Minute, Seed: *seed, Dir: t.TempDir(), Log: untilEnough{t.Output(), time.Now(), cancel}},
		PageDir: t.ArtifactDir(), Idempotent: true,
		Connect: func(endpoints []string) (Client, error) {
			c, err := Idempotent(endpoints)
			return explained{c, &unexplained}, err
		},
	})
	require.NoError(t, err)
	t.Log("\n" + result.String())
	require.True(t, result.Verdict.OK(), "%v", result)
	assert.Positive(t, result.Sum(true, model.Answered))
	assert.Zero(t, unexplained.Load(), "writes whose outcome is unknown though their context lives")
}
