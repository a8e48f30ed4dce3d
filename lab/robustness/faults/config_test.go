package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness/faults"
)

func TestConfigErrors(t *testing.T) {
	_, err := faults.Run(t.Context(), faults.Config{
		Members: 10, Hold: 2 * time.Hour, Callers: 1001, CallTimeout: -1, Healthy: -1,
	})
	require.Error(t, err)
	for _, want := range []string{
		"the number of members must be 3 to 9, so that a majority outlives the loss of one; it is 10",
		"the time for which a fault is held must be 100ms to 1h0m0s; it is 2h0m0s",
		"the number of callers of each kind must be 1 to 1000; it is 1001",
		"the timeout of a call must be more than 0 and at most 10m0s; it is -1ns",
		"negative time",
	} {
		assert.ErrorContains(t, err, want)
	}
}
