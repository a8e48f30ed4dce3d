package pace_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/internal/pace"
)

func TestBetween(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[time.Duration]bool{}
	for range 100 {
		seen[pace.Between(rng, 2, 5)] = true
	}
	assert.Equal(t, map[time.Duration]bool{2: true, 3: true, 4: true}, seen)
}
