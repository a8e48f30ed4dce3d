package balancer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestEvaluate(t *testing.T) {
	const short, long = time.Millisecond, time.Hour
	witnessed := func(o observation) observation {
		o.othersAlive, o.othersServe = witnessAfter, witnessAfter
		return o
	}
	tests := map[string]struct {
		observation
		want verdict
	}{
		"nothing is asked":                     {observation{}, undecided},
		"all is answered, others serve":        {witnessed(observation{}), undecided},
		"a large message is on its way":        {witnessed(observation{silent: long, stalled: long, busy: true}), undecided},
		"silent":                               {witnessed(observation{silent: deadAfter}), dead},
		"silent and stalled":                   {witnessed(observation{silent: deadAfter, stalled: long}), dead},
		"silent, others are alive":             {observation{silent: deadAfter, othersAlive: witnessAfter}, dead},
		"silent, nobody else is alive":         {observation{silent: long, stalled: long}, undecided},
		"silent, others are alive just now":    {observation{silent: long, othersAlive: witnessAfter - 1}, undecided},
		"silent, not for long":                 {witnessed(observation{silent: deadAfter - 1}), undecided},
		"stalled":                              {witnessed(observation{stalled: stallAfter}), stalled},
		"stalled, silent not for long":         {witnessed(observation{silent: deadAfter - 1, stalled: stallAfter}), stalled},
		"stalled, others are alive":            {observation{stalled: long, othersAlive: long}, undecided},
		"stalled, others serve just now":       {observation{stalled: long, othersAlive: long, othersServe: witnessAfter - 1}, undecided},
		"stalled, not for long":                {witnessed(observation{stalled: stallAfter - 1}), undecided},
		"silent, others are slow":              {witnessed(observation{silent: 3*time.Second - 1, others: time.Second}), undecided},
		"silent for longer than others need":   {witnessed(observation{silent: 3 * time.Second, others: time.Second}), dead},
		"stalled, others are slow":             {witnessed(observation{stalled: 3*time.Second - 1, others: time.Second}), undecided},
		"stalled for longer than others need":  {witnessed(observation{stalled: 3 * time.Second, others: time.Second}), stalled},
		"silent, and it is always slow":        {witnessed(observation{silent: 1500*time.Millisecond - 1, own: 500 * time.Millisecond}), undecided},
		"silent for longer than it needs":      {witnessed(observation{silent: 1500 * time.Millisecond, own: 500 * time.Millisecond}), dead},
		"its own latency excuses only so much": {witnessed(observation{silent: 3 * maxOwnLatency, own: long}), dead},
		"all are fast":                         {witnessed(observation{silent: deadAfter, own: short, others: short}), dead},
	}
	for name, tt := range tests {
		assert.Equal(t, tt.want, evaluate(tt.observation), name)
	}
}

func TestVerdictsTakeLessThanASecond(t *testing.T) {
	assert.LessOrEqual(t, stallAfter, 500*time.Millisecond)
	assert.LessOrEqual(t, deadAfter, 750*time.Millisecond)
}
