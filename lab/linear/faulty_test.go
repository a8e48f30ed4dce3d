package linear

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/lab/linear/model"
	"github.com/quorate/quorate/lab/soak"
	"github.com/quorate/quorate/retry"
)

// stale makes a serializable read of every get.
type stale struct{ Client }

func (c stale) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	if request.Kind == model.Get {
		request.Kind = model.SerializableGet
	}
	return c.Client.Do(ctx, keys, request)
}

// repeating makes a write again when it does not know whether it was executed.
type repeating struct{ Client }

func (c repeating) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	response, err := c.Client.Do(ctx, keys, request)
	if outcome(request.Kind, err) != model.Unknown {
		return response, err
	}
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	return c.Client.Do(again, keys, request)
}

// denying says that a write had no effect when it does not know.
type denying struct{ Client }

func (c denying) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	response, err := c.Client.Do(ctx, keys, request)
	if outcome(request.Kind, err) == model.Unknown {
		err = rpctypes.ErrTooManyRequests
	}
	return response, err
}

// alarm is a log that calls off the run when the first violation is found.
type alarm struct{ found context.CancelFunc }

func (a alarm) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("is not linearizable")) {
		a.found()
	}
	return len(p), nil
}

// TestFaultyClientsAreFound puts clients that break promises in the place of the sound
// one. Each is found out within seconds.
func TestFaultyClientsAreFound(t *testing.T) {
	t.Parallel()
	require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(rpctypes.ErrTooManyRequests))
	tests := map[string]func(Client) Client{
		"stale":     func(sound Client) Client { return stale{sound} },
		"repeating": func(sound Client) Client { return repeating{sound} },
		"denying":   func(sound Client) Client { return denying{sound} },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result, err := Run(ctx, Config{
				Config:  soak.Config{Duration: time.Minute, Seed: *seed, Dir: t.TempDir(), Log: alarm{cancel}},
				PageDir: t.ArtifactDir(),
				Connect: func(endpoints []string) (Client, error) {
					sound, err := Quorate(endpoints)
					if err != nil {
						return nil, err
					}
					return spoil(sound), nil
				},
			})
			require.NoError(t, err)
			require.Positive(t, result.Verdict.Counts[Linearizable], "%v", result)
			t.Log(result.Verdict.Violations[0].Message)
			page, err := os.ReadFile(result.Verdict.Violations[0].Page)
			require.NoError(t, err)
			assert.Contains(t, string(page), "<html")
		})
	}
}
