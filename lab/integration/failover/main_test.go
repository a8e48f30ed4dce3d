//go:build experiment

// Package failover_test has programs use clusters of three real members under faults, and while the machine is busy. How long
// failovers take is compared by "quorate-lab faults --compare".
package failover_test

import (
	"testing"

	"github.com/quorate/quorate/lab/internal/labtest"
)

func TestMain(m *testing.M) { labtest.Verify(m) }
