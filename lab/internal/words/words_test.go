package words_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/internal/words"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                         "0.00 ms",
		840 * time.Microsecond:    "0.84 ms",
		9996 * time.Microsecond:   "10.0 ms",
		99 * time.Millisecond:     "99.0 ms",
		100 * time.Millisecond:    "100 ms",
		999600 * time.Microsecond: "1.00 s",
		12345 * time.Millisecond:  "12.3 s",
		123 * time.Second:         "123 s",
	} {
		assert.Equal(t, want, words.Duration(d), d.String())
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"} {
		assert.Equal(t, want, words.Count(n))
	}
}

func TestClipAndWrap(t *testing.T) {
	assert.Equal(t, "a b", words.Clip("a\n  b", 3))
	assert.Equal(t, "abc…", words.Clip("abcdef", 4))
	assert.Equal(t, "…", words.Clip("abcdef", 0))
	assert.Equal(t, "one two\n  three", words.Wrap("one two three", 9, "  "))
	assert.Equal(t, "ave…\n-x", words.Wrap("averylongword x", 5, "-"))
}
