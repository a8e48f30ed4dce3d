// Package clitest runs commands in tests.
package clitest

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/cmd/internal/cli"
)

// Exec runs a command, and returns its exit status and what it printed.
func Exec(ctx context.Context, cmd *cobra.Command, args ...string) (status int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, args...)) // not nil: cobra then takes those of the process
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	status = cli.Execute(ctx, cmd)
	return status, out.String(), errOut.String()
}

// CheckHelp checks that the help of a command and of all below it fits in 120 columns.
func CheckHelp(t *testing.T, cmd *cobra.Command) {
	t.Helper()
	var out bytes.Buffer
	cmd.SetOut(&out)
	require.NoError(t, cmd.Help())
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 120, "%s: %s", cmd.CommandPath(), line)
	}
	for _, sub := range cmd.Commands() {
		CheckHelp(t, sub)
	}
}
