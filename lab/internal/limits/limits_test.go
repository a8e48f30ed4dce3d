package limits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	var good Check
	good.Members(3)
	good.Duration(time.Second)
	good.Number("callers", 64, 64)
	good.That(true, "never said")
	require.NoError(t, good.Err())

	var bad Check
	bad.Members(2)
	bad.Duration(2 * time.Hour)
	bad.Number("callers", 0, 64)
	bad.That(false, "it is %d", 7)
	require.Error(t, bad.Err())
	for _, want := range []string{
		"the number of members must be 3 to 9",
		"the duration must be more than 0 and at most 1h0m0s; it is 2h0m0s",
		"the number of callers must be 1 to 64; it is 0",
		"it is 7",
	} {
		assert.ErrorContains(t, bad.Err(), want)
	}
}
