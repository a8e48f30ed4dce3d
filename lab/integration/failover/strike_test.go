//go:build experiment

package failover_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
)

// hold is how long a fault is in force.
const hold = ttl * time.Second

// strike is a fault of a cluster.
type strike struct {
	scene    fault.Scene
	victim   *lab.Member // the first that something happened to
	from, to time.Time   // when it was in force
}

// inject makes a fault happen and returns when it has been in force for its time. It still
// is, until heal.
func inject(t *testing.T, c *lab.Cluster, w *recorder, name string) *strike {
	t.Helper()
	faults, err := fault.Parse([]string{name})
	require.NoError(t, err)
	s := &strike{}
	s.scene = fault.Scene{Cluster: c, Rand: rand.New(rand.NewPCG(rand.Uint64(), 0)), Hold: hold, Note: func(text string) {
		w.say("%s", text)
		for _, m := range c.Members() {
			if s.victim == nil && strings.HasPrefix(text, m.Name()) {
				s.victim = m
			}
		}
	}}
	s.from = time.Now()
	t.Cleanup(func() {
		if s.to.IsZero() {
			assert.NoError(t, fault.Heal(t.Context(), s.scene))
		}
	})
	require.NoError(t, faults[0].Inject(within(t, 2*patience), s.scene))
	require.NotNil(t, s.victim, "the note of the fault names its victim first")
	time.Sleep(time.Until(s.from.Add(hold)))
	return s
}

// heal ends the fault, and returns when the cluster is healed.
func (s *strike) heal(t *testing.T, w *recorder) {
	t.Helper()
	s.to = time.Now()
	w.say("healing")
	require.NoError(t, fault.Heal(within(t, 2*patience), s.scene))
	w.say("healed")
}
