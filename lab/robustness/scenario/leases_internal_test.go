package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/report"
)

func look(found bool, answered, until time.Duration) history.LeaseLook {
	return history.LeaseLook{
		Lease: 0x2a, Key: "/l/0/2a", Asked: 2 * time.Second, Answered: answered, Revision: 7, Found: found,
		Claim: history.LeaseClaim{At: time.Second, Until: until},
	}
}

func TestClaimsAreChecked(t *testing.T) {
	tests := []struct {
		name string
		look history.LeaseLook
		want int
	}{
		{"the key is there", look(true, 3*time.Second, 4*time.Second), 0},
		{"the key outlives the claim", look(true, 5*time.Second, 4*time.Second), 0},
		{"the key is gone before the claim has ended", look(false, 3*time.Second, 4*time.Second), 1},
		{"the claim has ended", look(false, 5*time.Second, 4*time.Second), 0},
		{"the claim ends as the read returns", look(false, 4*time.Second, 4*time.Second), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c claims
			c.evaluate(tt.look)
			looks, got := c.found()
			assert.EqualValues(t, 1, looks)
			assert.Equal(t, tt.want, got.Total())
			assert.Equal(t, tt.want == 0, got.OK())
		})
	}
}

func TestRefutedClaimsAreShown(t *testing.T) {
	var c claims
	const refuted = 13
	for range refuted {
		c.evaluate(look(false, 3*time.Second, 4*time.Second))
	}
	_, got := c.found()
	assert.Equal(t, map[tally.Promise]int{report.LeaseEndedEarly: refuted}, got.Counts)
	assert.Len(t, got.Violations, 10)
	assert.Equal(t, tally.Violation{
		Promise: report.LeaseEndedEarly,
		Message: "lease 2a had ended by 3.000000s, and the client claimed it to live until 4.000000s",
		Evidence: []string{
			"claimed at 1.000000s to live until 4.000000s",
			"linearizable get of /l/0/2a, from 2.000000s to 3.000000s: revision 7, found nothing",
		},
	}, got.Violations[0])
}
