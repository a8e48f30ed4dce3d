package retry

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecide(t *testing.T) {
	want := map[Class][2]Action{ // mutating, repeatable
		OK:         {Return, Return},
		Definite:   {Return, Return},
		NotSent:    {Again, Again},
		Refused:    {Again, Again},
		NoLeader:   {Again, Again},
		Overloaded: {Again, Again},
		Token:      {Refresh, Refresh},
		Ambiguous:  {ReturnUnknown, Again},
		Executed:   {ReturnUnknown, Return},
		Ended:      {Return, Return},
		Closed:     {Return, Return},
		Class(200): {ReturnUnknown, Again},
	}
	for class, actions := range want {
		assert.Equal(t, actions[0], Decide(class, Mutating), class)
		assert.Equal(t, actions[1], Decide(class, Repeatable), class)
		assert.Equal(t, actions[0], Decide(class, Safety(7)), class)
	}
}

func TestDecisionsCoverEveryClass(t *testing.T) {
	lines := Decisions()
	require.Len(t, lines, len(Classes()))
	for i, d := range lines {
		assert.Equal(t, Class(i), d.Class)
		assert.NotEmpty(t, d.Reason, d.Class)
		assert.Equal(t, d.Mutating, Decide(d.Class, Mutating))
		assert.Equal(t, d.Repeatable, Decide(d.Class, Repeatable))
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
	assert.Equal(t, "Ambiguous", Ambiguous.String())
	assert.Equal(t, "Class(99)", Class(99).String())
	assert.Equal(t, "ReturnUnknown", ReturnUnknown.String())
	assert.Equal(t, "Action(9)", Action(9).String())
	assert.Equal(t, "Repeatable", Repeatable.String())
	assert.Equal(t, "Mutating", Mutating.String())
	assert.Equal(t, "Safety(9)", Safety(9).String())
	assert.Equal(t, "NotExecuted", OutcomeNotExecuted.String())
	assert.Equal(t, "Outcome(9)", Outcome(9).String())
	for _, c := range Classes() {
		assert.NotContains(t, c.String(), "(")
	}
}
