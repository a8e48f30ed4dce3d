package compare_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/compare"
	"github.com/quorate/quorate/lab/robustness/measure"
	"github.com/quorate/quorate/lab/robustness/report"
	"github.com/quorate/quorate/lab/robustness/scenario"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// scripted is an experiment of one healthy row.
func scripted(_ context.Context, cfg scenario.Config) (report.Report, error) {
	if _, err := cfg.Connect(client.Target{Endpoints: []string{"http://a", "http://b"}}); err != nil {
		return report.Report{Failure: err.Error()}, err
	}
	return report.Report{Rows: []measure.Row{{Name: "healthy", End: time.Second}}}, nil
}

// clients returns clients that connect to nothing.
func clients(ids ...string) []compare.Client {
	var out []compare.Client
	for _, id := range ids {
		out = append(out, compare.Client{Client: report.Client{ID: id, Name: id}, Connect: func(client.Target) (client.Connection, error) {
			return client.Connection{}, nil
		}})
	}
	return out
}

func TestAFailedRunDoesNotEndTheComparison(t *testing.T) {
	boom := errors.New("boom")
	all := clients("a", "b")
	all[0].Connect = func(client.Target) (client.Connection, error) { return client.Connection{}, boom }
	result, err := compare.Run(t.Context(), compare.Config{Clients: all, Run: scripted})
	require.ErrorIs(t, err, boom)
	require.EqualError(t, err, "a: boom")
	require.Len(t, result.Runs, 2)
	assert.Equal(t, "boom", result.Runs[0].Report.Failure)
	assert.Empty(t, result.Runs[0].Report.Rows)
	assert.Len(t, result.Runs[1].Report.Rows, 1)
}

func TestTheEndOfItsContextEndsTheComparison(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result, err := compare.Run(ctx, compare.Config{
		Clients: clients("a", "b", "c"),
		Run: func(ctx context.Context, cfg scenario.Config) (report.Report, error) {
			rep, err := scripted(ctx, cfg)
			if cfg.Seed == 0 {
				rep.Interrupted = true
				cancel()
			}
			return rep, err
		},
	})
	require.NoError(t, err)
	assert.True(t, result.Interrupted)
	assert.Len(t, result.Runs, 1)
}

func TestDefaults(t *testing.T) {
	assert.Len(t, compare.DefaultFaults(), 6)
	all := compare.Clients()
	require.Len(t, all, 3)
	assert.Equal(t, compare.QuorateID, all[2].ID, "ours is the last")
	assert.Contains(t, all[1].Description, "keepalive every 10 s with a timeout of 3 s")
}
