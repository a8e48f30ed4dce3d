package watch

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
)

// lists returns the empty list, and all lists of one and two values.
func lists(values []string) [][]string {
	all := [][]string{nil}
	for _, a := range values {
		all = append(all, []string{a})
		for _, b := range values {
			all = append(all, []string{a, b})
		}
	}
	return all
}

// TestDifferentMetadataHasDifferentKeys tries all metadata of up to two names with up to two values each. Values contain
// bytes that look like separators and lengths; gRPC restricts names to letters, digits and a few other characters.
func TestDifferentMetadataHasDifferentKeys(t *testing.T) {
	all := lists([]string{"", "\x00", "\x01", "a", "\x01a", "a\x01a", "\x00b\x01", "\x01\x01b\x01\x00", "\x00b\x01a\x00"})
	keys := make(map[string]metadata.MD)
	for _, a := range all {
		for _, b := range all {
			md := metadata.MD{}
			md.Append("a", a...)
			md.Append("b", b...)
			key := metadataKey(metadata.NewOutgoingContext(t.Context(), md))
			if other, taken := keys[key]; taken {
				t.Fatalf("%q and %q share a stream", map[string][]string(md), map[string][]string(other))
			}
			keys[key] = md
		}
	}
	require.Len(t, keys, len(all)*len(all))
}

func TestTheSameMetadataHasTheSameKey(t *testing.T) {
	with := func(pairs ...string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), pairs...)
	}
	want := metadataKey(with("a", "1", "a", "2", "b", "3"))
	for range 20 { // map order is random
		assert.Equal(t, want, metadataKey(with("b", "3", "a", "1", "a", "2")))
		assert.Equal(t, want, metadataKey(with("A", "1", "a", "2", "B", "3")), "names are case-insensitive")
	}
	assert.NotEqual(t, want, metadataKey(with("a", "2", "a", "1", "b", "3")), "the order of values matters")
	assert.Empty(t, metadataKey(t.Context()))
	assert.Empty(t, metadataKey(metadata.NewOutgoingContext(t.Context(), metadata.MD{})))
}
