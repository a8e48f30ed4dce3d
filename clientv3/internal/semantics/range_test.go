package semantics

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func of(key, rangeEnd string) Range { return Of([]byte(key), []byte(rangeEnd)) }

func TestContains(t *testing.T) {
	tests := []struct {
		name    string
		r       Range
		in, out []string
	}{
		{"one key", of("b", ""), []string{"b"}, []string{"a", "b\x00", "ba", "c"}},
		{"half-open", of("b", "d"), []string{"b", "c", "czz"}, []string{"a", "d"}},
		{"from key on", of("b", "\x00"), []string{"b", "c", "\xff\xff"}, []string{"a"}},
		{"reversed", of("d", "b"), nil, []string{"a", "b", "c", "d", "e"}},
	}
	for _, tt := range tests {
		for _, k := range tt.in {
			assert.True(t, tt.r.Contains(k), "%s: %q", tt.name, k)
		}
		for _, k := range tt.out {
			assert.False(t, tt.r.Contains(k), "%s: %q", tt.name, k)
		}
		assert.Equal(t, tt.in == nil, tt.r.Empty(), tt.name)
	}
}

func TestCoveredBy(t *testing.T) {
	tests := []struct {
		name string
		r    Range
		by   []Range
		want bool
	}{
		{"nothing", of("a", ""), nil, false},
		{"itself", of("a", "c"), []Range{of("a", "c")}, true},
		{"one key in a range", of("b", ""), []Range{of("a", "c")}, true},
		{"neighbours in any order", of("a", "d"), []Range{of("c", "e"), of("a", "b"), of("b", "c")}, true},
		{"a gap", of("a", "d"), []Range{of("a", "b"), of("c", "d")}, false},
		{"too short", of("a", "d"), []Range{of("a", "c")}, false},
		{"starts too late", of("a", "d"), []Range{of("b", "\x00")}, false},
		{"open by open", of("b", "\x00"), []Range{of("a", "c"), of("b", "\x00")}, true},
		{"open by closed", of("b", "\x00"), []Range{of("a", "z")}, false},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, tt.r.CoveredBy(tt.by), tt.name)
	}
}

func TestOverlapsAndIncludes(t *testing.T) {
	tests := []struct {
		r, o               Range
		overlaps, includes bool
	}{
		{of("b", ""), of("b", ""), true, true},
		{of("b", ""), of("b", "c"), true, false},
		{of("b", "d"), of("c", ""), true, true},
		{of("b", "d"), of("b", "d"), true, true},
		{of("b", "d"), of("c", "e"), true, false},
		{of("b", "d"), of("a", "c"), true, false},
		{of("b", "d"), of("d", "\x00"), false, false},
		{of("b", "\x00"), of("c", "\x00"), true, true},
		{of("b", "\x00"), of("a", "d"), true, false},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.overlaps, tt.r.Overlaps(tt.o), "%q", tt)
		assert.Equal(t, tt.overlaps, tt.o.Overlaps(tt.r), "%q", tt)
		assert.Equal(t, tt.includes, tt.r.Includes(tt.o), "%q", tt)
	}
}
