package history_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness/history"
)

func TestKeyPathRoundTrip(t *testing.T) {
	const prefix = "/quorate-lab/r1/"
	tests := []struct {
		key  history.Key
		path string
	}{
		{history.Key{Space: history.Puts, Caller: 3, Seq: 42}, "/quorate-lab/r1/put/3/42"},
		{history.Key{Space: history.Txns, Caller: 0, Seq: 0}, "/quorate-lab/r1/txn/0/0"},
		{history.CounterOf(11), "/quorate-lab/r1/counter/11"},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			assert.Equal(t, tt.path, tt.key.Path(prefix))
			got, err := history.ParseKey(prefix, tt.path)
			require.NoError(t, err)
			assert.Equal(t, tt.key, got)
		})
	}
}

func TestParseKeyRejects(t *testing.T) {
	for _, path := range []string{
		"", "/other/put/1/1", "/p/", "/p/put/1", "/p/put/x/1", "/p/put/1/x", "/p/counter/1/1", "/p/lease/1/1",
	} {
		_, err := history.ParseKey("/p/", path)
		assert.Error(t, err, "path %q", path)
	}
}

func TestNames(t *testing.T) {
	ids := map[string]bool{}
	for _, k := range history.Kinds() {
		ids[k.ID()] = true
		assert.NotContains(t, k.String(), "Kind(")
	}
	assert.Len(t, ids, int(history.NumKinds))
	assert.True(t, history.Put.Writes())
	assert.True(t, history.Txn.Writes())
	assert.False(t, history.LinearizableGet.Writes())
	assert.False(t, history.SerializableGet.Writes())
	assert.Equal(t, "Kind(9)", history.Kind(9).String())
	assert.Equal(t, "Kind(9)", history.Kind(9).ID())
	assert.Equal(t, "Outcome(9)", history.Outcome(9).String())
	assert.Equal(t, "Space(9)", history.Space(9).String())
	assert.Equal(t, "unknown", history.Unknown.String())
}
