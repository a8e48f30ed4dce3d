package stats

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   Quartiles
	}{
		{[]float64{3}, Quartiles{3, 3, 3}},
		{[]float64{9, 1}, Quartiles{3, 5, 7}},
		{[]float64{9, 1, 2, 3, 5}, Quartiles{2, 3, 5}},
	} {
		assert.Equal(t, tt.want, Of(tt.values))
	}
}
