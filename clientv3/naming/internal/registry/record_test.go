package registry

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The values are those of the official client: programs with either client read each other's
// endpoints.
func TestRecord(t *testing.T) {
	tests := []struct {
		endpoint Endpoint
		value    string
	}{
		{Endpoint{}, `{"Op":0,"Addr":"","Metadata":null}`},
		{Endpoint{Addr: "127.0.0.1:80"}, `{"Op":0,"Addr":"127.0.0.1:80","Metadata":null}`},
		{Endpoint{Addr: "a", Metadata: "b"}, `{"Op":0,"Addr":"a","Metadata":"b"}`},
		{Endpoint{Addr: "a<b", Metadata: map[string]any{"w": 3.0}}, `{"Op":0,"Addr":"a\u003cb","Metadata":{"w":3}}`},
	}
	for _, tt := range tests {
		value, err := Encode(tt.endpoint)
		require.NoError(t, err)
		assert.Equal(t, tt.value, value)
		back, err := decode([]byte(value))
		require.NoError(t, err)
		assert.Equal(t, tt.endpoint, back)
	}
}

func TestRecordOfOthers(t *testing.T) {
	for value, want := range map[string]Endpoint{
		`{"Addr":"a"}`:                          {Addr: "a"},
		`{"Op":1,"Addr":"a","Metadata":[1]}`:    {Addr: "a", Metadata: []any{1.0}},
		`{"Addr":"a","Zone":"of a later etcd"}`: {Addr: "a"},
	} {
		got, err := decode([]byte(value))
		require.NoError(t, err, value)
		assert.Equal(t, want, got, value)
	}
	for _, value := range []string{"", "127.0.0.1:80", `{"Addr":7}`, `{"Addr":"a"`, `{"Op":-1}`} {
		_, err := decode([]byte(value))
		assert.Error(t, err, value)
	}
}
