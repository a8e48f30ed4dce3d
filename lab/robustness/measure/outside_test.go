package measure_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/robustness/measure"
)

func TestOutsideDelay(t *testing.T) {
	const second = time.Second
	var m measure.Meter
	delays := func(now time.Duration) (out []time.Duration) {
		for _, row := range m.Rows(now) {
			out = append(out, row.OutsideDelay)
		}
		return out
	}
	m.Begin("healthy", 0)
	m.OutsideWrite(1, 1*second)
	m.OutsideEvent(1, 2*second)
	m.OutsideEvent(2, 3*second) // it may be delivered before it is acknowledged
	m.OutsideWrite(2, 4*second)
	assert.Equal(t, []time.Duration{second}, delays(5*second))

	m.Begin("fault", 6*second)
	m.OutsideWrite(3, 7*second)
	m.OutsideWrite(5, 8*second)
	assert.Equal(t, []time.Duration{second, 3 * second}, delays(10*second), "what is owed counts")
	m.Begin("next", 11*second)
	m.OutsideEvent(5, 12*second)
	m.OutsideWrite(6, 13*second)
	m.OutsideEvent(6, 13*second)
	assert.Equal(t, []time.Duration{second, 5 * second, 0}, delays(20*second))
}
