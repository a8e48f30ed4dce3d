package dns

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// What a record makes of a sequence of answers. In it, "4" and "6" are addresses of the
// families, "4?" is an answer in which those of IPv6 could not be looked up, "-" an answer
// that there is nothing, and "!" a failure.
func TestRecord(t *testing.T) {
	v4, v6 := backend{addrs: parse("10.0.0.1")}, backend{addrs: parse("2001:db8::1")}
	steps := map[string]func(*record){
		"4":  func(r *record) { r.answered(answer{backends: []backend{v4}}, "") },
		"6":  func(r *record) { r.answered(answer{backends: []backend{v6}}, "") },
		"46": func(r *record) { r.answered(answer{backends: []backend{v4, v6}}, "") },
		"4?": func(r *record) { r.answered(answer{backends: []backend{v4}, lacks: FamilyIPv6}, "no IPv6") },
		"-":  func(r *record) { r.empty("nothing") },
		"!":  func(r *record) { r.failure("failed") },
	}
	type state struct {
		listed  bool
		n       int
		problem string
	}
	kept := func(text string, n string) string { return text + " (keeping the last good list, of " + n + ")" }
	for _, c := range []struct {
		name  string
		steps []string
		want  state
	}{
		{"at first", nil, state{}},
		{"answer", []string{"4"}, state{true, 1, ""}},
		{"first empty answer", []string{"-"}, state{true, 0, "nothing"}},
		{"first failure", []string{"!", "!", "!", "!"}, state{false, 0, "failed"}},
		{"one empty answer", []string{"4", "-"}, state{true, 1, kept("nothing", "1")}},
		{"two empty answers", []string{"46", "-", "-"}, state{true, 2, kept("nothing", "2")}},
		{"three empty answers", []string{"4", "-", "-", "-"}, state{true, 0, "nothing"}},
		{"a failure in between", []string{"4", "-", "-", "!", "-"}, state{true, 1, kept("nothing", "1")}},
		{"an answer in between", []string{"4", "-", "-", "4", "-", "-"}, state{true, 1, kept("nothing", "1")}},
		{"back after empty", []string{"4", "-", "-", "-", "46"}, state{true, 2, ""}},
		{"empty for long, then a failure", []string{"4", "-", "-", "-", "!"}, state{true, 0, "failed"}},
		{"failures keep the list", []string{"4", "!", "!", "!", "!", "!"}, state{true, 1, kept("failed", "1")}},
		{"half an answer at first", []string{"4?"}, state{true, 1, ""}},
		{"half an answer, nothing missing", []string{"4", "4?"}, state{true, 1, ""}},
		{"half an answer", []string{"46", "4?"}, state{true, 2, kept("no IPv6", "2")}},
		{"half an answer, three times", []string{"46", "4?", "4?", "4?"}, state{true, 1, ""}},
		{"half answers and empty ones", []string{"6", "4?", "-", "-"}, state{true, 0, "nothing"}},
	} {
		r := record{enough: 3}
		for _, s := range c.steps {
			steps[s](&r)
		}
		got := state{listed: r.listed, n: len(r.backends)}
		if r.problem != nil {
			got.problem = r.problem.text
		}
		assert.Equal(t, c.want, got, c.name)
	}
}

// Channels tell from the pointer whether a problem is a new one.
func TestProblemStaysTheSame(t *testing.T) {
	r := record{enough: 3}
	r.failure("timeout")
	first := r.problem
	r.failure("timeout")
	assert.Same(t, first, r.problem)
	r.failure("refused")
	assert.NotSame(t, first, r.problem)
	assert.Equal(t, "dns: refused", r.problem.Error())
}
