package main

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/cmd/internal/cli"
)

// soakOutcomes are the results that the run of a soak can have, and what is printed then.
type soakOutcomes[R any] struct {
	good, early, bad R
	// kept is printed if there are no violations, shown and counted if there are two, and
	// first tells of these on standard error.
	kept, shown, counted, first string
}

// checkExitStatus holds a soak to the exit statuses that all have.
func checkExitStatus[R any](
	t *testing.T, exec func(ctx context.Context, result R, err error) (status int, stdout, stderr string), o soakOutcomes[R],
) {
	t.Helper()
	var nothing R
	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(cli.SignalError{Signal: syscall.SIGINT})
	tests := []struct {
		name   string
		ctx    context.Context
		result R
		err    error
		status int
		stdout string
		stderr string
	}{
		{"good", t.Context(), o.good, nil, cli.OK, o.kept, ""},
		{"violations", t.Context(), o.bad, nil, cli.Negative, o.shown, o.first},
		{"failure", t.Context(), nothing, errors.New("no disk"), cli.Failure, "", "soak: no disk\n"},
		{"interrupted", interrupted, o.early, nil, 130, o.kept, "the run was ended early: interrupt"},
		{"violations and interrupted", interrupted, o.bad, nil, cli.Negative, o.counted, "2 violations"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, stdout, stderr := exec(tt.ctx, tt.result, tt.err)
			assert.Equal(t, tt.status, status)
			assert.Contains(t, stdout, tt.stdout)
			assert.Contains(t, stderr, tt.stderr)
		})
	}
}
