package history_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/retry"
)

func TestOutcomeOf(t *testing.T) {
	unknown := &retry.UnknownOutcomeError{Method: "/etcdserverpb.KV/Put", Err: status.Error(codes.Unavailable, "reset")}
	for err, want := range map[error]history.Outcome{
		nil:                            history.OK,
		unknown:                        history.Unknown,
		fmt.Errorf("put: %w", unknown): history.Unknown,
		context.DeadlineExceeded:       history.Unknown,
		context.Canceled:               history.Unknown,
		errors.New("boom"):             history.Unknown,
		status.Error(codes.InvalidArgument, "etcdserver: key is not provided"): history.Failed,
	} {
		assert.Equal(t, want, history.OutcomeOf(true, err), err)
		assert.Equal(t, err == nil, history.OutcomeOf(false, err) == history.OK, err)
		assert.NotEqual(t, history.Unknown, history.OutcomeOf(false, err), err)
	}
}

func TestClock(t *testing.T) {
	clock := history.NewClock([]history.Answer{
		{Sent: 5, Returned: 7, Revision: 11, Call: 1},
		{Sent: 1, Returned: 6, Revision: 9, Call: 2},
		{Sent: 3, Returned: 4, Revision: 12, Call: 3},
		{Sent: 8, Returned: 9, Revision: 14, Call: 4},
	})
	type bounds struct {
		least int64
		call  int
		most  int64
	}
	for at, want := range map[time.Duration]bounds{
		0: {0, 0, 9}, 1: {0, 0, 9}, 2: {0, 0, 11}, 4: {0, 0, 11}, 5: {12, 3, 11}, 6: {12, 3, 14}, 8: {12, 3, 14}, 9: {12, 3, 0}, 10: {14, 4, 0},
	} {
		least, call, answered := clock.AtLeast(at)
		most, asked := clock.AtMost(at)
		assert.Equal(t, want, bounds{least, call, most}, "at %d", at)
		assert.Equal(t, want.least > 0, answered)
		assert.Equal(t, want.most > 0, asked)
	}
}

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
