package probe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestEvaluate(t *testing.T) {
	const short, long = time.Millisecond, time.Hour
	witnessed := func(o Observation) Observation {
		o.OthersAlive, o.OthersServe = max(WitnessAfter, min(o.Silent/2, maxRecovery)), WitnessAfter
		return o
	}
	tests := map[string]struct {
		Observation
		want Verdict
	}{
		"nothing is unanswered":                  {Observation{}, Undecided},
		"all is answered, others serve":          {witnessed(Observation{}), Undecided},
		"a large message is on its way":          {witnessed(Observation{Silent: long, Stalled: long, Busy: true}), Undecided},
		"silent":                                 {witnessed(Observation{Silent: DeadAfter}), Dead},
		"silent and stalled":                     {witnessed(Observation{Silent: DeadAfter, Stalled: long}), Dead},
		"silent, others are alive":               {Observation{Silent: DeadAfter, OthersAlive: DeadAfter / 2}, Dead},
		"silent, others were so until lately":    {Observation{Silent: 10 * time.Second, OthersAlive: 5*time.Second - 1}, Silent},
		"silent for longer than the others took": {Observation{Silent: 10 * time.Second, OthersAlive: 5 * time.Second}, Dead},
		"silent for a day":                       {Observation{Silent: 24 * time.Hour, OthersAlive: maxRecovery}, Dead},
		"silent, no other is alive":              {Observation{Silent: long, Stalled: long}, Undecided},
		"silent, others are alive just now":      {Observation{Silent: DeadAfter, OthersAlive: WitnessAfter - 1}, Undecided},
		"silent, not for long":                   {witnessed(Observation{Silent: DeadAfter - 1}), Undecided},
		"stalled":                                {witnessed(Observation{Stalled: StallAfter}), Stalled},
		"stalled, silent not for long":           {witnessed(Observation{Silent: DeadAfter - 1, Stalled: StallAfter}), Stalled},
		"stalled, others are alive":              {Observation{Stalled: long, OthersAlive: long}, Undecided},
		"stalled, others serve just now":         {Observation{Stalled: long, OthersAlive: long, OthersServe: WitnessAfter - 1}, Undecided},
		"stalled, not for long":                  {witnessed(Observation{Stalled: StallAfter - 1}), Undecided},
		"silent, others are slow":                {witnessed(Observation{Silent: DeadAfter + 3*time.Second - 1, Others: time.Second}), Undecided},
		"silent for longer than others need":     {witnessed(Observation{Silent: DeadAfter + 3*time.Second, Others: time.Second}), Dead},
		"stalled, others are slow":               {witnessed(Observation{Stalled: StallAfter + 3*time.Second - 1, Others: time.Second}), Undecided},
		"stalled for longer than others need":    {witnessed(Observation{Stalled: StallAfter + 3*time.Second, Others: time.Second}), Stalled},
		"silent, and it is always slow":          {witnessed(Observation{Silent: DeadAfter + 1500*time.Millisecond - 1, Own: 500 * time.Millisecond}), Undecided},
		"silent for longer than it needs":        {witnessed(Observation{Silent: DeadAfter + 1500*time.Millisecond, Own: 500 * time.Millisecond}), Dead},
		"its own latency excuses only so much":   {witnessed(Observation{Silent: DeadAfter + 3*maxOwnLatency, Own: long}), Dead},
		"all are fast":                           {witnessed(Observation{Silent: 3 * Round, Own: 10 * short, Others: short}), Dead},
	}
	for name, tt := range tests {
		assert.Equal(t, tt.want, Evaluate(tt.Observation), name)
	}
}

// A probe whose packet is lost twice in a row is answered in time: TCP repeats it after its
// RTO, 0.2 s and a round trip, and then after twice that. The probe follows a call that was
// unanswered for 0.1 s, or 3 × p99, on the same connection.
func TestTwoLostPacketsAreNoSilence(t *testing.T) {
	for _, rtt := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 60 * time.Millisecond, 250 * time.Millisecond} {
		rto := 200*time.Millisecond + rtt
		answered := rto + 2*rto + rtt - max(100*time.Millisecond, 3*rtt) // since the probe
		found := (DeadAfter + Tolerance(rtt, rtt) + Round - 1) / Round * Round
		assert.Less(t, answered, found, "round trips of %v", rtt)
	}
}
