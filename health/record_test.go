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

	"github.com/quorate/quorate/health"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var (
	allStates = []health.State{
		health.Unknown, health.Serving, health.Suspected, health.Slow, health.Lagging,
		health.NoLeader, health.Learner, health.NotServing, health.Draining, health.Dead,
	}
	allKinds = []health.Kind{
		health.Connected, health.Disconnected, health.ConnectFailed, health.Answered, health.Served, health.Silent,
		health.Missed, health.Late, health.Stalled, health.Leaderless, health.NonVoting, health.Refusing, health.Removed,
	}
)

// transitions has a line for each state, and a column for each kind of evidence in the
// order of allKinds: the state after the first piece of it. A dot is the same state.
//
// Connected, Disconnected, ConnectFailed, Answered, Served, Silent, Missed, Late, Stalled, Leaderless, NonVoting, Refusing, Removed.
const transitions = `
unknown     | . | .       | dead    | serving | serving | suspected | suspected | slow | lagging | no leader | learner | not serving | draining
serving     | . | .       | dead    | .       | .       | suspected | suspected | slow | lagging | no leader | learner | not serving | draining
suspected   | . | unknown | dead    | .       | serving | .         | .         | slow | lagging | no leader | learner | not serving | draining
slow        | . | .       | dead    | .       | .       | .         | .         | .    | lagging | no leader | learner | not serving | draining
lagging     | . | .       | dead    | .       | serving | .         | .         | slow | .       | no leader | learner | not serving | draining
no leader   | . | .       | dead    | .       | serving | .         | .         | slow | .       | .         | learner | not serving | draining
learner     | . | .       | dead    | .       | serving | .         | .         | slow | .       | .         | .       | not serving | draining
not serving | . | .       | dead    | .       | serving | .         | .         | slow | .       | no leader | learner | .           | draining
draining    | . | .       | .       | .       | .       | .         | .         | .    | .       | .         | .       | .           | .
dead        | . | .       | .       | .       | serving | .         | .         | slow | lagging | no leader | learner | not serving | draining
`

func TestNextTable(t *testing.T) {
	rows := strings.Split(strings.TrimSpace(transitions), "\n")
	require.Len(t, rows, len(allStates), "a row for each state")
	for i, row := range rows {
		cells := strings.Split(row, "|")
		require.Len(t, cells, 1+len(allKinds), "a column for each kind of evidence: %s", row)
		from := allStates[i]
		require.Equal(t, from.String(), strings.TrimSpace(cells[0]))
		for j, cell := range cells[1:] {
			want := strings.TrimSpace(cell)
			if want == "." {
				want = from.String()
			}
			t.Run(fmt.Sprintf("%v/%v", from, allKinds[j]), func(t *testing.T) {
				before := health.Record{State: from, Since: t0, Evidence: health.Evidence{Kind: health.Connected, At: t0}}
				ev := health.Evidence{Kind: allKinds[j], At: t0.Add(time.Second), Detail: "why"}
				after := before.Next(ev)
				require.Equal(t, want, after.State.String())
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

// The package documentation shows the same table. There, a transition that takes more
// than one piece of evidence is marked.
func TestNextTableInTheDocumentation(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	plain := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, " ", "")) }
	want := make(map[string][]string)
	for row := range strings.Lines(strings.TrimSpace(transitions)) {
		cells := strings.Split(plain(strings.TrimSpace(row)), "|")
		want[cells[0]] = cells[1:]
	}
	columns := regexp.MustCompile(`\s{2,}`)
	found := 0
	for line := range strings.Lines(string(doc)) {
		cells := columns.Split(strings.TrimSpace(strings.TrimPrefix(line, "//")), -1)
		if len(cells) != 1+len(allKinds) {
			continue
		}
		found++
		for i, cell := range cells[1:] {
			switch cell {
			case "·", "Dead (2)", "Serving³":
				cell = "."
			case "Suspected (1)":
				cell = "Suspected"
			}
			assert.Equal(t, want[plain(cells[0])][i], plain(cell), "%s, %v", cells[0], allKinds[i])
		}
	}
	assert.Equal(t, len(allStates), found, "rows with a column for each kind of evidence")
}

func TestAllConstantsAreInTheTable(t *testing.T) {
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

func TestNextCounts(t *testing.T) {
	type kinds = []health.Kind
	tests := []struct {
		name string
		from health.State
		seen kinds
		want health.State
	}{
		{"silence and two misses", health.Serving, kinds{health.Silent, health.Missed, health.Missed}, health.Dead},
		{"silence and one miss", health.Serving, kinds{health.Silent, health.Missed}, health.Suspected},
		{"a quiet endpoint misses twice", health.Serving, kinds{health.Missed, health.Missed}, health.Dead},
		{"an unknown one does", health.Unknown, kinds{health.Missed, health.Missed}, health.Dead},
		{"a slow one does", health.Slow, kinds{health.Missed, health.Missed}, health.Dead},
		{"a lagging one does", health.Lagging, kinds{health.Missed, health.Missed}, health.Dead},
		{"one without a leader does", health.NoLeader, kinds{health.Missed, health.Missed}, health.Dead},
		{"a learner does", health.Learner, kinds{health.Missed, health.Missed}, health.Dead},
		{"one that does not serve does", health.NotServing, kinds{health.Missed, health.Missed}, health.Dead},
		{"a draining one does", health.Draining, kinds{health.Missed, health.Missed}, health.Draining},
		{"an answer between misses", health.Suspected, kinds{health.Missed, health.Answered, health.Missed}, health.Suspected},
		{"silence between misses", health.Suspected, kinds{health.Missed, health.Silent, health.Missed}, health.Dead},
		{"a new connection between misses", health.Suspected, kinds{health.Missed, health.Connected, health.Missed}, health.Dead},
		{"the end of one between misses", health.Slow, kinds{health.Missed, health.Disconnected, health.Missed}, health.Slow},
		{"a state between misses", health.Suspected, kinds{health.Missed, health.Stalled, health.Missed}, health.Lagging},
		{"death forgets the misses", health.Suspected, kinds{health.Missed, health.Missed, health.Leaderless, health.Missed}, health.NoLeader},
		{"misses of the dead do not count", health.Dead, kinds{health.Missed, health.Missed, health.Stalled, health.Missed}, health.Lagging},

		{"slow and good twice", health.Slow, kinds{health.Served, health.Served}, health.Slow},
		{"slow and good three times", health.Slow, kinds{health.Served, health.Served, health.Served}, health.Serving},
		{"late in between", health.Slow, kinds{health.Served, health.Served, health.Late, health.Served, health.Served}, health.Slow},
		{"missed in between", health.Slow, kinds{health.Served, health.Served, health.Missed, health.Served}, health.Slow},
		{"answers in between", health.Slow, kinds{health.Served, health.Served, health.Answered, health.Served}, health.Serving},
		{"slow again begins anew", health.Slow, kinds{health.Served, health.Served, health.Served, health.Late, health.Served}, health.Slow},

		{"frozen and thawed", health.Serving, kinds{
			health.Silent, health.Missed, health.Missed, health.Disconnected, health.ConnectFailed, health.Connected, health.Served,
		}, health.Serving},
		{"cut off from its peers", health.Serving, kinds{
			health.Silent, health.Answered, health.Stalled, health.Leaderless, health.Answered,
		}, health.NoLeader},
		{"killed", health.Serving, kinds{health.Disconnected, health.ConnectFailed, health.Connected, health.Answered}, health.Dead},
		{"killed and restarted", health.Serving, kinds{health.Disconnected, health.ConnectFailed, health.Connected, health.Served}, health.Serving},
		{"cut and connected again", health.Serving, kinds{health.Disconnected, health.Connected}, health.Serving},
		{"promoted", health.Unknown, kinds{health.NonVoting, health.Answered, health.Served}, health.Serving},
		{"removed while suspected", health.Suspected, kinds{health.Missed, health.Removed, health.Served}, health.Draining},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want.String(), run(health.Record{State: tt.from}, tt.seen...).State.String())
		})
	}
}

// Time is taken from the evidence, and the record that is asked does not change.
func TestNextIsPure(t *testing.T) {
	before := health.Record{}
	after := before.Next(health.Evidence{Kind: health.Answered, At: t0})
	assert.Equal(t, health.Record{}, before)
	assert.Equal(t, t0, after.Since)
	assert.Equal(t, after, before.Next(health.Evidence{Kind: health.Answered, At: t0}))
}

// What is no constant of Kind changes nothing.
func TestNextOfAnUnknownKind(t *testing.T) {
	for _, s := range allStates {
		r := health.Record{State: s, Misses: 1}
		assert.Equal(t, r, r.Next(health.Evidence{Kind: 99, At: t0}))
	}
}

func TestEvidenceString(t *testing.T) {
	assert.Equal(t, "served", health.Evidence{Kind: health.Served}.String())
	assert.Equal(t, "connect failed: refused",
		health.Evidence{Kind: health.ConnectFailed, Err: errors.New("refused")}.String())
	assert.Equal(t, "silent: no answer to Put for 300ms: broken",
		health.Evidence{Kind: health.Silent, Detail: "no answer to Put for 300ms", Err: errors.New("broken")}.String())
}
