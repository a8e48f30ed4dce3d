package history_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness/history"
)

func TestScopes(t *testing.T) {
	scopes := history.Scopes(6)
	assert.Equal(t, []history.Scope{
		{All: true},
		{Space: history.Puts, Caller: 1},
		{Space: history.Txns, Caller: 2},
		{Space: history.Counters, Caller: 3},
		{All: true},
		{Space: history.Puts, Caller: 5},
	}, scopes)
	assert.Equal(t, []history.Scope{{All: true}}, history.Scopes(1))
}

// TestScopeRange holds the two descriptions of a scope, as keys and as a range of
// stored keys, against each other.
func TestScopeRange(t *testing.T) {
	const prefix = "/p/"
	var keys []history.Key
	for caller := range 12 {
		keys = append(keys, history.CounterOf(caller),
			history.Key{Space: history.Puts, Caller: caller, Seq: 3}, history.Key{Space: history.Txns, Caller: caller, Seq: 30})
	}
	for _, scope := range history.Scopes(12) {
		from, end := scope.Range(prefix)
		req := history.WatchRequest{Key: from, RangeEnd: end}
		included := 0
		for _, k := range keys {
			assert.Equal(t, scope.Includes(k), req.Covers(k.Path(prefix)), "%v of %+v", k, scope)
			if scope.Includes(k) {
				included++
			}
		}
		assert.Positive(t, included)
		assert.False(t, req.Covers("/p"), "what is not under the prefix")
		assert.False(t, req.Covers("/p0"))
	}
}

func TestWritten(t *testing.T) {
	event := func(key, value string) history.Event {
		return history.Event{KeyValue: history.KeyValue{Key: key, Value: value, ModRevision: 7}}
	}
	deleted := event("/p/put/3/42", "")
	deleted.Type = history.DeleteEvent
	tests := []struct {
		event history.Event
		want  history.Key
		err   string
	}{
		{event("/p/put/3/42", "put/3/42"), history.Key{Space: history.Puts, Caller: 3, Seq: 42}, ""},
		{event("/p/txn/3/42", "x"), history.Key{Space: history.Txns, Caller: 3, Seq: 42}, ""},
		{event("/p/counter/3", "17"), history.Key{Space: history.Counters, Caller: 3, Seq: 17}, ""},
		{event("/p/counter/3", "x"), history.Key{}, "put /p/counter/3 at revision 7: the counter's value"},
		{event("/q/put/3/42", ""), history.Key{}, "not below"},
		{deleted, history.Key{}, "delete /p/put/3/42 at revision 7: the load deletes nothing"},
	}
	for _, tt := range tests {
		got, err := history.Written("/p/", tt.event)
		if tt.err != "" {
			assert.ErrorContains(t, err, tt.err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, tt.want, got)
	}
}
