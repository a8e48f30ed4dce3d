package balancer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestEvaluate(t *testing.T) {
	const short, long = time.Millisecond, time.Hour
	witnessed := func(o observation) observation {
		o.othersAlive, o.othersServe = max(witnessAfter, min(o.silent/2, maxRecovery)), witnessAfter
		return o
	}
	tests := map[string]struct {
		observation
		want verdict
	}{
		"nothing is unanswered":                  {observation{}, undecided},
		"all is answered, others serve":          {witnessed(observation{}), undecided},
		"a large message is on its way":          {witnessed(observation{silent: long, stalled: long, busy: true}), undecided},
		"silent":                                 {witnessed(observation{silent: deadAfter}), dead},
		"silent and stalled":                     {witnessed(observation{silent: deadAfter, stalled: long}), dead},
		"silent, others are alive":               {observation{silent: deadAfter, othersAlive: deadAfter / 2}, dead},
		"silent, others were so until lately":    {observation{silent: 10 * time.Second, othersAlive: 5*time.Second - 1}, silent},
		"silent for longer than the others took": {observation{silent: 10 * time.Second, othersAlive: 5 * time.Second}, dead},
		"silent for a day":                       {observation{silent: 24 * time.Hour, othersAlive: maxRecovery}, dead},
		"silent, no other is alive":              {observation{silent: long, stalled: long}, undecided},
		"silent, others are alive just now":      {observation{silent: deadAfter, othersAlive: witnessAfter - 1}, undecided},
		"silent, not for long":                   {witnessed(observation{silent: deadAfter - 1}), undecided},
		"stalled":                                {witnessed(observation{stalled: stallAfter}), stalled},
		"stalled, silent not for long":           {witnessed(observation{silent: deadAfter - 1, stalled: stallAfter}), stalled},
		"stalled, others are alive":              {observation{stalled: long, othersAlive: long}, undecided},
		"stalled, others serve just now":         {observation{stalled: long, othersAlive: long, othersServe: witnessAfter - 1}, undecided},
		"stalled, not for long":                  {witnessed(observation{stalled: stallAfter - 1}), undecided},
		"silent, others are slow":                {witnessed(observation{silent: deadAfter + 3*time.Second - 1, others: time.Second}), undecided},
		"silent for longer than others need":     {witnessed(observation{silent: deadAfter + 3*time.Second, others: time.Second}), dead},
		"stalled, others are slow":               {witnessed(observation{stalled: stallAfter + 3*time.Second - 1, others: time.Second}), undecided},
		"stalled for longer than others need":    {witnessed(observation{stalled: stallAfter + 3*time.Second, others: time.Second}), stalled},
		"silent, and it is always slow":          {witnessed(observation{silent: deadAfter + 1500*time.Millisecond - 1, own: 500 * time.Millisecond}), undecided},
		"silent for longer than it needs":        {witnessed(observation{silent: deadAfter + 1500*time.Millisecond, own: 500 * time.Millisecond}), dead},
		"its own latency excuses only so much":   {witnessed(observation{silent: deadAfter + 3*maxOwnLatency, own: long}), dead},
		"all are fast":                           {witnessed(observation{silent: 3 * probeRound, own: 10 * short, others: short}), dead},
	}
	for name, tt := range tests {
		assert.Equal(t, tt.want, evaluate(tt.observation), name)
	}
}

// A probe whose packet is lost twice in a row is answered in time: TCP repeats it after its
// RTO, 0.2 s and a round trip, and then after twice that. The probe follows a call that was
// unanswered for 0.1 s, or 3 × p99, on the same connection.
func TestTwoLostPacketsAreNoSilence(t *testing.T) {
	for _, rtt := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 60 * time.Millisecond, 250 * time.Millisecond} {
		rto := 200*time.Millisecond + rtt
		answered := rto + 2*rto + rtt - max(100*time.Millisecond, 3*rtt) // since the probe
		found := (deadAfter + tolerance(rtt, rtt) + probeRound - 1) / probeRound * probeRound
		assert.Less(t, answered, found, "round trips of %v", rtt)
	}
}
