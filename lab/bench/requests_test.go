package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/bench/internal/programs"
)

// scene connects converse to a serve in this process that knows one case.
func scene(t *testing.T, control cases.Control, run func(context.Context, cases.Site) (cases.Sample, error)) (cases.Sample, error) {
	t.Helper()
	in, toChild := io.Pipe()
	fromChild, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- cases.Serve(in, out, []cases.Case{{Name: "case", Run: run}})
		_ = out.Close()
	}()
	sample, err := converse(t.Context(), cases.Job{Case: "case", Size: 7, Revision: 3}, toChild, fromChild, control)
	_ = toChild.Close()
	require.NoError(t, <-served)
	return sample, err
}

// recorder is a Control that notes what it is asked for.
type recorder struct {
	killed string
	puts   int
	err    error
}

func (r *recorder) Kill(_ context.Context, address string) error {
	r.killed = address
	return r.err
}

func (r *recorder) Put(_ context.Context, n int) error {
	r.puts = n
	return r.err
}

func TestRequests(t *testing.T) {
	var control recorder
	sample, err := scene(t, &control, func(ctx context.Context, site cases.Site) (cases.Sample, error) {
		assert.Equal(t, 7, site.Size)
		assert.EqualValues(t, 3, site.Revision)
		return cases.Sample{"time": 1.5}, errors.Join(site.Control.Put(ctx, 12), site.Control.Kill(ctx, "member"))
	})
	require.NoError(t, err)
	assert.Equal(t, cases.Sample{"time": 1.5}, sample)
	assert.Equal(t, recorder{killed: "member", puts: 12}, control)
}

func TestRequestThatFails(t *testing.T) {
	_, err := scene(t, &recorder{err: errors.New("it lives")}, func(ctx context.Context, site cases.Site) (cases.Sample, error) {
		return nil, site.Control.Kill(ctx, "member")
	})
	require.EqualError(t, err, "it lives")
}

// TestNoCallerWaits ends the input while the case runs.
func TestNoCallerWaits(t *testing.T) {
	in, toChild := io.Pipe()
	go func() {
		_ = json.NewEncoder(toChild).Encode(cases.Job{Case: "case"})
		_ = toChild.Close()
	}()
	var cause error
	err := cases.Serve(in, io.Discard, []cases.Case{{Name: "case", Run: func(ctx context.Context, _ cases.Site) (cases.Sample, error) {
		<-ctx.Done()
		cause = context.Cause(ctx)
		return nil, cause
	}}})
	require.NoError(t, err)
	require.ErrorIs(t, cause, io.EOF)
}

func TestTail(t *testing.T) {
	assert.Empty(t, programs.Tail("\n"))
	assert.Equal(t, "\na\nb", programs.Tail("a\nb\n"))
}
