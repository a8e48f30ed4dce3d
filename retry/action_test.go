package retry

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/error-tables.md has the matrix.
func TestDecide(t *testing.T) {
	for _, d := range append(Decisions(), Decision{Class: 200, Mutating: ReturnUnknown, Repeatable: Again}) {
		assert.Equal(t, d.Mutating, Decide(d.Class, Mutating), d.Class)
		assert.Equal(t, d.Repeatable, Decide(d.Class, Repeatable), d.Class)
		assert.Equal(t, d.Mutating, Decide(d.Class, Safety(7)), d.Class)
	}
}

func TestDecisionsCoverEveryClass(t *testing.T) {
	lines := Decisions()
	require.Len(t, lines, len(Classes()))
	for i, d := range lines {
		assert.Equal(t, Class(i), d.Class)
		assert.NotEmpty(t, d.Reason, d.Class)
	}
}

// A caller who changes what an accessor returned must not change the tables.
func TestAccessorsReturnCopies(t *testing.T) {
	Decisions()[Ambiguous].Mutating = Again
	assert.Equal(t, ReturnUnknown, Decide(Ambiguous, Mutating))

	ServerErrors()[0].Class = noClass
	assert.NotEqual(t, noClass, ServerErrors()[0].Class)
	LocalErrors()[0].Class = noClass
	assert.NotEqual(t, noClass, LocalErrors()[0].Class)
	Codes()[0].Class = noClass
	assert.NotEqual(t, noClass, Codes()[0].Class)

	name := Methods()[0].Name
	Methods()[0].Safety = Mutating
	assert.Equal(t, Repeatable, SafetyOf(name, nil))
	DefaultConfig().Default.RetryableStatusCodes[0] = 0
	assert.NotZero(t, DefaultConfig().Default.RetryableStatusCodes[0])
}

// noClass is a class that no table contains.
const noClass = Class(99)

func TestStrings(t *testing.T) {
	for want, v := range map[string]fmt.Stringer{
		"Class(99)": Class(99), "Action(9)": Action(9), "Safety(9)": Safety(9), "Outcome(9)": Outcome(9),
		"Mutating": Mutating, "Repeatable": Repeatable, "NotExecuted": OutcomeNotExecuted,
	} {
		assert.Equal(t, want, v.String())
	}
}
