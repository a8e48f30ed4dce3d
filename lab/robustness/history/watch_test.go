package history_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/robustness/history"
)

// event is a put of a key, or "-" and a key that is deleted.
func event(text string) history.Event {
	key, deleted := strings.CutPrefix(text, "-")
	e := history.Event{KeyValue: history.KeyValue{Key: key}}
	if deleted {
		e.Type = history.DeleteEvent
	}
	return e
}

func TestWatchRequestMatches(t *testing.T) {
	for name, tt := range map[string]struct {
		request history.WatchRequest
		yes, no []string
	}{
		"one key":       {history.WatchRequest{Key: "b"}, []string{"b", "-b"}, []string{"a", "ba", ""}},
		"a range":       {history.WatchRequest{Key: "b", RangeEnd: "d"}, []string{"b", "cz", "-c"}, []string{"a", "d", "-d"}},
		"from a key on": {history.WatchRequest{Key: "b", RangeEnd: "\x00"}, []string{"b", "z"}, []string{"a"}},
		"no puts":       {history.WatchRequest{Key: "b", NoPut: true}, []string{"-b"}, []string{"b", "-c"}},
		"no deletes":    {history.WatchRequest{Key: "b", NoDelete: true}, []string{"b"}, []string{"-b"}},
	} {
		for _, e := range tt.yes {
			assert.True(t, tt.request.Matches(event(e)), "%s: %s", name, e)
		}
		for _, e := range tt.no {
			assert.False(t, tt.request.Matches(event(e)), "%s: %s", name, e)
		}
	}
}

func TestLastEvent(t *testing.T) {
	var events []history.Event
	for i, key := range []string{"a", "b", "a", "a"} {
		events = append(events, history.Event{KeyValue: history.KeyValue{Key: key, ModRevision: int64(2 + i)}})
	}
	a := history.WatchRequest{Key: "a"}
	assert.EqualValues(t, 4, a.Last(events[:3], 2), "the last of them")
	assert.EqualValues(t, 5, a.Last(events, 5))
	assert.Zero(t, a.Last(events[:3], 5), "none in between")
	assert.Zero(t, history.WatchRequest{Key: "c"}.Last(events, 2))
}

func TestWatchResponseKinds(t *testing.T) {
	for name, tt := range map[string]struct {
		response           history.WatchResponse
		progress, terminal bool
	}{
		"events":    {history.WatchResponse{Revision: 2, Events: []history.Event{{}}}, false, false},
		"progress":  {history.WatchResponse{Revision: 2}, true, false},
		"created":   {history.WatchResponse{Revision: 2, Created: true}, false, false},
		"compacted": {history.WatchResponse{Revision: 2, CompactRevision: 5}, false, true},
		"cancelled": {history.WatchResponse{Revision: 2, Canceled: true}, false, true},
		"failed":    {history.WatchResponse{Revision: 2, Err: errors.New("no")}, false, true},
		"nothing":   {history.WatchResponse{}, false, false},
	} {
		assert.Equal(t, tt.progress, tt.response.IsProgress(), name)
		assert.Equal(t, tt.terminal, tt.response.IsTerminal(), name)
	}
}
