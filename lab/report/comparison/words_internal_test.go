package comparison

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDuration(t *testing.T) {
	for ms, want := range map[float64]string{
		0: "0", 0.04: "0.0 ms", 0.84: "0.8 ms", 9.94: "9.9 ms", 9.96: "10 ms", 99.6: "100 ms", 999.4: "999 ms", 999.6: "1.00 s",
		9_994: "9.99 s", 9_996: "10.0 s", 99_960: "100 s", 123_456: "123 s",
	} {
		assert.Equal(t, want, duration(ms), ms)
	}
	assert.Equal(t, "1 %", percent(0.5))
	assert.Equal(t, "100 %", percent(100.4))
	assert.Equal(t, "5 ms", configured(5))
	assert.Equal(t, "2.5 s", configured(2500))
}

func TestResumption(t *testing.T) {
	for _, tt := range []struct {
		r          Resumption
		span, last string
	}{
		{Resumption{}, "none", "0 of 6"},
		{Resumption{Callers: 4, FirstMS: 12, LastMS: 30}, "12 ms, 4 of 6", "4 of 6"},
		{Resumption{Callers: 6, FirstMS: 12, LastMS: 30}, "12 – 30 ms", "30 ms"},
		{Resumption{Callers: 6, FirstMS: 5260, LastMS: 5280}, "5.26 – 5.28 s", "5.28 s"},
		{Resumption{Callers: 6, FirstMS: 12, LastMS: 1500}, "12 ms – 1.50 s", "1.50 s"},
		{Resumption{Callers: 6, FirstMS: 12.1, LastMS: 12.2}, "12 ms", "12 ms"},
	} {
		assert.Equal(t, tt.span, tt.r.span(6))
		assert.Equal(t, tt.last, tt.r.last(6))
	}
}
