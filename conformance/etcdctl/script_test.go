package main

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// script is a row of commands that build on each other.
type script struct {
	name  string
	steps []step
}

// step is a command and what it must print.
type step struct {
	// args are split at spaces; '' stands for an empty argument, and $name for what
	// a placeholder of an earlier step has matched.
	args string
	// stdin is the standard input, with $name likewise.
	stdin string
	// want is the whole standard output. A placeholder such as <id> in it matches
	// characters other than spaces, commas and brackets, padded with spaces, and
	// keeps them under its name; if the name is known, it must match the same again.
	// <_> matches and is not kept.
	want string
	// fails is part of the standard error of a command that must fail. Without it
	// the command must succeed and print nothing there.
	fails string
}

// play runs a script. Its variables begin with those given.
func (s script) play(t *testing.T, ctl etcdctl, given map[string]string) {
	t.Helper()
	vars := maps.Clone(given)
	if vars == nil {
		vars = map[string]string{}
	}
	for _, step := range s.steps {
		step.play(t, ctl, vars)
	}
}

// play runs the command and compares.
func (s step) play(t *testing.T, ctl etcdctl, vars map[string]string) {
	t.Helper()
	var args []string
	for _, arg := range strings.Fields(s.args) {
		args = append(args, strings.ReplaceAll(expand(t, arg, vars), "''", ""))
	}
	got := ctl.run(t, expand(t, s.stdin, vars), args...)
	command := "etcdctl " + strings.Join(args, " ")
	if s.fails != "" {
		require.NotZero(t, got.status, "%s: it succeeded\nstdout: %s", command, got.stdout)
		require.Contains(t, got.stderr, s.fails, command)
	} else {
		require.Zero(t, got.status, "%s\nstdout: %sstderr: %s", command, got.stdout, got.stderr)
		require.Empty(t, got.stderr, command)
	}
	if !match(s.want, got.stdout, vars) {
		require.Equal(t, s.want, got.stdout, "%s\nvariables: %v", command, vars)
	}
}

func expand(t *testing.T, text string, vars map[string]string) string {
	t.Helper()
	return os.Expand(text, func(name string) string {
		require.Contains(t, vars, name, "no earlier step has matched <%s>", name)
		return vars[name]
	})
}

var placeholder = regexp.MustCompile(`<([a-z_]+)>`)

// match reports whether the whole text is as wanted, and keeps what the
// placeholders matched.
func match(want, text string, vars map[string]string) bool {
	var names []string
	pattern := placeholder.ReplaceAllStringFunc(regexp.QuoteMeta(want), func(found string) string {
		names = append(names, strings.Trim(found, "<>"))
		return `\s*([^\s,{}\[\]]+)`
	})
	found := regexp.MustCompile(`^` + pattern + `$`).FindStringSubmatch(text)
	if found == nil {
		return false
	}
	for i, name := range names {
		value, known := vars[name]
		switch {
		case name == "_":
		case !known:
			vars[name] = found[i+1]
		case value != found[i+1]:
			return false
		}
	}
	return true
}

func TestMatch(t *testing.T) {
	tests := []struct {
		want, text string
		given      string // the variable id
		ok         bool
		kept       string
	}{
		{"OK\n", "OK\n", "", true, ""},
		{"OK\n", "OK\nOK\n", "", false, ""},
		{"", "OK", "", false, ""},
		{"lease <id> granted (<_>)", "lease 32 granted (60)", "", true, "32"},
		{"lease <id> granted", "lease granted", "", false, ""},
		{"lease <id>", "lease 32", "32", true, "32"},
		{"Member <id> added", "Member  32 added", "", true, "32"},
		{"lease <id>", "lease 33", "32", false, "32"},
		{"<id> <id>", "1 2", "", false, "1"},
		{"<id> <id>", "1 1", "", true, "1"},
		{"[a, <open ended>", "[a, <open ended>", "", true, ""},
	}
	for _, tt := range tests {
		vars := map[string]string{}
		if tt.given != "" {
			vars["id"] = tt.given
		}
		require.Equal(t, tt.ok, match(tt.want, tt.text, vars), "%q, %q", tt.want, tt.text)
		require.Equal(t, tt.kept, vars["id"], "%q, %q", tt.want, tt.text)
	}
}
