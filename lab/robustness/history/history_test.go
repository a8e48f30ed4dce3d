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

func TestKinds(t *testing.T) {
	for k, want := range map[history.Kind]string{
		history.LinearizableGet: "linearizable_get", history.SerializableGet: "serializable_get", history.Put: "put", history.Txn: "txn",
	} {
		id, err := k.MarshalText()
		require.NoError(t, err)
		assert.Equal(t, want, string(id))
		assert.Equal(t, k == history.Put || k == history.Txn, k.Writes())
	}
	assert.Equal(t, "linearizable get", history.LinearizableGet.String())
}
