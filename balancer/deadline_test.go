package balancer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// timerless is a context whose deadline passes and whose timer does not run.
type timerless struct {
	context.Context
	deadline time.Time
}

func (c timerless) Deadline() (time.Time, bool) { return c.deadline, true }

// A server that counts the deadline of its caller down says that it waited in vain when
// that has passed. It may be in order all the same; one that says so before is not.
func TestServerIsNotStalledByItsCallersDeadline(t *testing.T) {
	s := startServer(t)
	c := connectProbing(t, roundRobin, nil, s)
	c.meetAll(t, s)
	s.refuse.Store(&errInVain)
	s.long.Store(int64(100 * time.Millisecond))

	hasty := timerless{t.Context(), time.Now().Add(2 * time.Second)}
	before := s.calls.Load()
	result := make(chan error, 1)
	go func() { result <- c.call(hasty) }()
	require.Eventually(t, func() bool { return s.calls.Load() > before }, 10*time.Second, time.Millisecond)
	s.freeze() // the answer is under way for long
	time.Sleep(time.Until(hasty.deadline))
	s.thaw()
	require.Equal(t, codes.Aborted, status.Code(<-result))
	assert.Zero(t, c.events.reached(health.Lagging))

	patient, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.Equal(t, codes.Aborted, status.Code(c.call(patient)))
	assert.Equal(t, 1, c.events.reached(health.Lagging))
}
