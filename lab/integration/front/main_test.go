// Package front_test has programs use the library through what stands in front of servers:
// an nginx process, and grpc's xDS resolver with a control plane in this process.
package front_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/labtest"
)

const (
	// testTimeout bounds every wait for what must happen; a passing test waits a small part
	// of it.
	testTimeout = 5 * time.Minute
	// readmission bounds the wait for servers to be in use, all of them. One that is slow is asked every 30 s at least, and
	// on a busy machine may answer late again.
	readmission = 2 * time.Minute
	// pollInterval is the pause between two looks at what is waited for.
	pollInterval = 10 * time.Millisecond
)

func TestMain(m *testing.M) { labtest.Verify(m) }

var within = grpctest.Within
