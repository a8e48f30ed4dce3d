package health_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var (
	allStates = []health.State{
		health.Unknown, health.Serving, health.Suspected, health.Slow, health.Lagging,
		health.Degraded, health.Restricted, health.NotServing, health.Draining, health.Dead,
	}
	allKinds = []health.Kind{
		health.Connected, health.Disconnected, health.ConnectFailed, health.Answered, health.Served, health.Suspicious, health.Late,
		health.Stalled, health.Unresponsive, health.Degrading, health.Restricting, health.Refusing, health.Removed,
	}
)

// documented returns the table of the package documentation: for each state, the states that follow on each kind of evidence.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	columns := regexp.MustCompile(`\s{2,}`)
	rows := make(map[string][]string)
	for line := range strings.Lines(string(doc)) {
		cells := columns.Split(strings.TrimSpace(strings.TrimPrefix(line, "//")), -1)
		if len(cells) == len(allKinds) && cells[0] == "Connected" {
			cells = append([]string{"the kinds of evidence"}, cells...)
		}
		if len(cells) == 1+len(allKinds) {
			rows[cells[0]] = cells[1:]
		}
	}
	return rows
}

// named returns the name of a state or a kind of evidence as the documentation has it.
func named(constant fmt.Stringer) string {
	var name string
	for word := range strings.FieldsSeq(constant.String()) {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}

// The package documentation has the state after the first piece of evidence; a dot is the same state.
func TestNextTable(t *testing.T) {
	table := documented(t)
	require.Len(t, table, 1+len(allStates))
	for i, kind := range allKinds {
		assert.Equal(t, named(kind), table["the kinds of evidence"][i])
	}
	for _, from := range allStates {
		require.Contains(t, table, named(from))
		for i, want := range table[named(from)] {
			if want == "·" || want == "Serving³" { // at the third in a row
				want = named(from)
			}
			t.Run(fmt.Sprintf("%v/%v", from, allKinds[i]), func(t *testing.T) {
				before := health.Record{State: from, Since: t0, Evidence: health.Evidence{Kind: health.Connected, At: t0}}
				ev := health.Evidence{Kind: allKinds[i], At: t0.Add(time.Second), Detail: "why"}
				after := before.Next(ev)
				require.Equal(t, want, named(after.State))
				if after.State == from {
					assert.Equal(t, before.Since, after.Since, "the state goes on")
					assert.Equal(t, before.Evidence, after.Evidence, "what led to it is the same")
				} else {
					assert.Equal(t, ev.At, after.Since)
					assert.Equal(t, ev, after.Evidence)
				}
			})
		}
	}
}

func TestTransitionsCoverAllConstants(t *testing.T) {
	assert.Contains(t, (allStates[len(allStates)-1] + 1).String(), "State(", "a state is missing")
	assert.Contains(t, (allKinds[len(allKinds)-1] + 1).String(), "Kind(", "a kind is missing")
	for _, s := range allStates {
		text, err := s.MarshalText()
		require.NoError(t, err)
		assert.Equal(t, s.String(), string(text))
		assert.NotContains(t, s.String(), "(")
	}
	for _, k := range allKinds {
		text, err := k.MarshalText()
		require.NoError(t, err)
		assert.Equal(t, k.String(), string(text))
		assert.NotContains(t, k.String(), "(")
	}
}

// run has a record go through evidence, a second apart.
func run(r health.Record, kinds ...health.Kind) health.Record {
	for i, k := range kinds {
		r = r.Next(health.Evidence{Kind: k, At: t0.Add(time.Duration(i+1) * time.Second)})
	}
	return r
}

func TestNextOfSeveralPiecesOfEvidence(t *testing.T) {
	type kinds = []health.Kind
	tests := []struct {
		name string
		from health.State
		seen kinds
		want health.State
	}{
		{"one verdict is enough", health.Serving, kinds{health.Unresponsive}, health.Dead},
		{"suspicions do not add up", health.Serving, kinds{health.Suspicious, health.Suspicious, health.Suspicious}, health.Suspected},
		{"an answer clears no suspect", health.Serving, kinds{health.Suspicious, health.Answered, health.Answered}, health.Suspected},
		{"work clears a suspect", health.Serving, kinds{health.Suspicious, health.Served}, health.Serving},

		{"slow and good twice", health.Slow, kinds{health.Served, health.Served}, health.Slow},
		{"slow and good three times", health.Slow, kinds{health.Served, health.Served, health.Served}, health.Serving},
		{"late in between", health.Slow, kinds{health.Served, health.Served, health.Late, health.Served, health.Served}, health.Slow},
		{"suspicious in between", health.Slow, kinds{health.Served, health.Served, health.Suspicious, health.Served}, health.Serving},
		{"answers in between", health.Slow, kinds{health.Served, health.Served, health.Answered, health.Served}, health.Serving},
		{"slow again begins anew", health.Slow, kinds{health.Served, health.Served, health.Served, health.Late, health.Served}, health.Slow},
		{"another state begins anew", health.Slow, kinds{health.Served, health.Served, health.Stalled, health.Late, health.Served}, health.Slow},

		{"frozen and thawed", health.Serving, kinds{
			health.Suspicious, health.Unresponsive, health.Disconnected, health.ConnectFailed, health.Connected, health.Served,
		}, health.Serving},
		{"cut off from its peers", health.Serving, kinds{
			health.Suspicious, health.Answered, health.Stalled, health.Degrading, health.Answered,
		}, health.Degraded},
		{"killed", health.Serving, kinds{health.Disconnected, health.ConnectFailed, health.Connected, health.Answered}, health.Dead},
		{"killed and restarted", health.Serving, kinds{health.Disconnected, health.ConnectFailed, health.Connected, health.Served}, health.Serving},
		{"cut and connected again", health.Serving, kinds{health.Disconnected, health.Connected}, health.Serving},
		{"promoted", health.Unknown, kinds{health.Restricting, health.Answered, health.Served}, health.Serving},
		{"a learner loses its leader", health.Unknown, kinds{health.Restricting, health.Degrading}, health.Restricted},
		{"removed while suspected", health.Suspected, kinds{health.Removed, health.Served}, health.Draining},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want.String(), run(health.Record{State: tt.from}, tt.seen...).State.String())
		})
	}
}

// A kind without a constant changes nothing.
func TestNextOfAnUnknownKind(t *testing.T) {
	for _, s := range allStates {
		r := health.Record{State: s, Good: 1}
		assert.Equal(t, r, r.Next(health.Evidence{Kind: 99, At: t0}))
	}
}

func TestEvidenceString(t *testing.T) {
	assert.Equal(t, "served", health.Evidence{Kind: health.Served}.String())
	assert.Equal(t, "connect failed: refused",
		health.Evidence{Kind: health.ConnectFailed, Err: errors.New("refused")}.String())
	assert.Equal(t, "suspicious: no answer to Put for 300ms: broken",
		health.Evidence{Kind: health.Suspicious, Detail: "no answer to Put for 300ms", Err: errors.New("broken")}.String())
}

func TestUsableStatesServeCallsOfEveryKind(t *testing.T) {
	usable := map[health.State]bool{health.Unknown: true, health.Serving: true, health.Suspected: true, health.Slow: true}
	for _, s := range allStates {
		assert.Equal(t, usable[s], s.Usable(), "%v", s)
	}
}

// States of a rank can serve more than those of the ranks after it.
func TestImprovesComparesWhatStatesCanServe(t *testing.T) {
	ranks := [][]health.State{
		{health.Unknown, health.Serving},
		{health.Suspected, health.Slow},
		{health.Degraded, health.Restricted, health.Lagging},
		{health.NotServing, health.Draining, health.Dead},
	}
	total := 0
	for i, better := range ranks {
		total += len(better)
		for j, worse := range ranks {
			for _, to := range better {
				for _, from := range worse {
					assert.Equal(t, i < j, health.Change{From: from, To: to}.Improves(), "%v to %v", from, to)
				}
			}
		}
	}
	assert.Equal(t, len(allStates), total)
}

func TestEndpointThatRelapsesGetsWritesLaterEachTime(t *testing.T) {
	for _, verdict := range []health.Kind{health.Stalled, health.Unresponsive} {
		var r health.Record
		at := t0
		relapse := func(served time.Duration) time.Duration {
			at = at.Add(served)
			for _, kind := range []health.Kind{health.Suspicious, verdict, health.Unresponsive, health.Served} {
				at = at.Add(time.Second)
				r = r.Next(health.Evidence{Kind: kind, At: at})
			}
			assert.Equal(t, health.Serving, r.State)
			return r.WritesFrom.Sub(at)
		}
		for _, want := range []time.Duration{4, 8, 16, 30, 30, 30, 30, 30, 30, 30, 30} {
			assert.Equal(t, want*time.Second, relapse(2*time.Second))
		}
		assert.Equal(t, 30*time.Second, relapse(80*time.Second), "trusted for 50 s")
		assert.Equal(t, 4*time.Second, relapse(2*time.Minute), "the verdicts are forgotten")
	}
}

// Suspicions, and what a member says of itself, are no verdicts.
func TestOnlyVerdictsAreRelapses(t *testing.T) {
	var r health.Record
	for i := range 40 {
		kinds := []health.Kind{health.Suspicious, health.Served, health.Degrading, health.Served, health.ConnectFailed, health.Served}
		r = r.Next(health.Evidence{Kind: kinds[i%len(kinds)], At: t0.Add(time.Duration(i) * time.Second)})
		assert.Zero(t, r.WritesFrom)
	}
}

// An endpoint that is suspected because many of its calls failed needs several that do not, and more after a relapse.
func TestEndpointWhoseCallsFailServesAfterSeveralThatDoNot(t *testing.T) {
	var r health.Record
	for _, want := range []int{3, 6, 12, 24, 24} {
		r = r.Next(health.Evidence{Kind: health.Suspicious, At: t0, Often: true})
		r = r.Next(health.Evidence{Kind: health.Served, At: t0})
		r = r.Next(health.Evidence{Kind: health.Suspicious, At: t0, Often: true}) // starts again
		good := 0
		for ; r.State == health.Suspected; good++ {
			r = r.Next(health.Evidence{Kind: health.Served, At: t0})
		}
		assert.Equal(t, want, good)
		assert.Equal(t, health.Serving, r.State)
	}
}

func TestFromServer(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"success", nil, true},
		{"permission denied", status.Error(codes.PermissionDenied, ""), true},
		{"unauthenticated", status.Error(codes.Unauthenticated, ""), true},
		{"unimplemented", status.Error(codes.Unimplemented, ""), true},
		{"an error without a status", errors.New("?"), true},
		{"a broken connection", status.Error(codes.Unavailable, "connection reset"), false},
		{"a broken stream", status.Error(codes.Internal, "stream terminated by RST_STREAM"), false},
		{"a deadline", status.Error(codes.DeadlineExceeded, ""), false},
		{"a deadline that the server was first to see", status.Error(codes.Canceled, ""), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, health.FromServer(tt.err))
		})
	}
}
