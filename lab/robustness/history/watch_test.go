package history_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/robustness/history"
)

func TestWatchRequestMatches(t *testing.T) {
	put := func(key string) history.Event { return history.Event{KeyValue: history.KeyValue{Key: key}} }
	gone := func(key string) history.Event {
		return history.Event{Type: history.DeleteEvent, KeyValue: history.KeyValue{Key: key}}
	}
	tests := []struct {
		name    string
		request history.WatchRequest
		yes, no []history.Event
	}{
		{
			"one key",
			history.WatchRequest{Key: "b"},
			[]history.Event{put("b"), gone("b")},
			[]history.Event{put("a"), put("ba"), put("")},
		},
		{
			"a range",
			history.WatchRequest{Key: "b", RangeEnd: "d"},
			[]history.Event{put("b"), put("cz"), gone("c")},
			[]history.Event{put("a"), put("d"), gone("d")},
		},
		{
			"from a key on",
			history.WatchRequest{Key: "b", RangeEnd: "\x00"},
			[]history.Event{put("b"), put("z")},
			[]history.Event{put("a")},
		},
		{
			"no puts",
			history.WatchRequest{Key: "b", NoPut: true},
			[]history.Event{gone("b")},
			[]history.Event{put("b"), gone("c")},
		},
		{
			"no deletes",
			history.WatchRequest{Key: "b", NoDelete: true},
			[]history.Event{put("b")},
			[]history.Event{gone("b")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, e := range tt.yes {
				assert.True(t, tt.request.Matches(e), "%v", e)
			}
			for _, e := range tt.no {
				assert.False(t, tt.request.Matches(e), "%v", e)
			}
		})
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
	tests := []struct {
		name               string
		response           history.WatchResponse
		progress, terminal bool
	}{
		{"events", history.WatchResponse{Revision: 2, Events: []history.Event{{}}}, false, false},
		{"progress", history.WatchResponse{Revision: 2}, true, false},
		{"created", history.WatchResponse{Revision: 2, Created: true}, false, false},
		{"compacted", history.WatchResponse{Revision: 2, CompactRevision: 5}, false, true},
		{"cancelled", history.WatchResponse{Revision: 2, Canceled: true}, false, true},
		{"failed", history.WatchResponse{Revision: 2, Err: errors.New("no")}, false, true},
		{"nothing", history.WatchResponse{}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.progress, tt.response.IsProgress())
			assert.Equal(t, tt.terminal, tt.response.IsTerminal())
		})
	}
}
