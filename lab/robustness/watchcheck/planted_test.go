package watchcheck_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// drop takes a response out of a watch.
func drop(w *history.Watch, n int) { w.Responses = slices.Delete(w.Responses, n, n+1) }

// insert puts responses into a watch, the first as number n.
func insert(w *history.Watch, n int, r ...history.WatchResponse) {
	w.Responses = slices.Insert(w.Responses, n, r...)
}

// end makes a watch end by itself with a last response.
func end(w *history.Watch, last history.WatchResponse) {
	w.End, w.Responses = history.EndedByItself, append(w.Responses, last)
}

// planted are faults, each of which breaks one promise. The responses of a watch
// of both are: 0 a, 1 b, 2 a and b, 3 -a, 4 a, 5 b and a, 6 -b, 7 a.
var planted = []struct {
	name    string
	request history.WatchRequest
	start   int64
	change  func(*history.Watch)
	want    watchcheck.Promise
	message string
}{
	{
		"a late revision", both, 2, func(w *history.Watch) { r := w.Responses; r[3], r[4] = r[4], r[3] },
		watchcheck.Ordered, "delete a at revision 5 came after put a at revision 6",
	},
	{
		"events of a txn are swapped", both, 2, func(w *history.Watch) { e := w.Responses[2].Events; e[0], e[1] = e[1], e[0] },
		watchcheck.Ordered, "put a at revision 4 came after put b at revision 4",
	},
	{
		"a response comes again", both, 2, func(w *history.Watch) { insert(w, 4, w.Responses[3]) },
		watchcheck.Unique, "delete a at revision 5 came again",
	},
	{
		"all comes again from an old revision", both, 2, func(w *history.Watch) { insert(w, 6, w.Responses[3:6]...) },
		watchcheck.Unique, "delete a at revision 5 came again",
	},
	{
		"a revision is split", both, 2, func(w *history.Watch) {
			second := w.Responses[2]
			w.Responses[2].Events, second.Events = second.Events[:1], second.Events[1:]
			insert(w, 3, second)
		},
		watchcheck.Atomic, "revision 4 is split: b came in a later response",
	},
	{
		"a revision is missing", both, 2, func(w *history.Watch) { drop(w, 3) },
		watchcheck.Reliable, "reached 10, should have reached 10, and 1 events are missing, the first is delete a at revision 5",
	},
	{
		"half a revision is missing", both, 2, func(w *history.Watch) { w.Responses[5].Events = w.Responses[5].Events[:1] },
		watchcheck.Reliable, "1 events are missing, the first is put a at revision 8",
	},
	{
		"the end is missing", both, 2, func(w *history.Watch) { w.Responses = w.Responses[:6] },
		watchcheck.Reliable, "reached 8, should have reached 10, and 2 events are missing",
	},
	{
		"nothing came", both, 99, nil,
		watchcheck.Reliable, "reached 0, should have reached 10, and 10 events are missing, the first is put a at revision 2",
	},
	{
		"the end before a bookmark is missing", both, 2, func(w *history.Watch) {
			w.End, w.Responses = history.LeftByReader, append(w.Responses[:6], bookmark(9))
		},
		watchcheck.Reliable, "reached 9, should have reached 9, and 1 events are missing, the first is delete b at revision 9",
	},
	{
		"the first event after the call is missing",
		history.WatchRequest{Key: "a"},
		8, func(w *history.Watch) { w.StartedBy = 6 },
		watchcheck.Reliable, "the first is put a at revision 6",
	},
	{
		"events after the first bookmark are missing",
		history.WatchRequest{Key: "a", ProgressNotify: true},
		8,
		func(w *history.Watch) { insert(w, 0, bookmark(4)) },
		watchcheck.Reliable, "the first is delete a at revision 5",
	},
	{
		"the start is skipped", both, 4, nil,
		watchcheck.Resumable, "2 events are missing, the first is put a at revision 2",
	},
	{
		"it begins before its start",
		history.WatchRequest{Key: "a", StartRevision: 5},
		4, nil,
		watchcheck.Resumable, "put a at revision 4 came although the watch starts at revision 5",
	},
	{
		"events after the creation are missing",
		history.WatchRequest{Key: "a", CreatedNotify: true},
		6,
		func(w *history.Watch) { w.Responses[0].Revision = 4 },
		watchcheck.Reliable, "reached 10, should have reached 10, and 1 events are missing, the first is delete a at revision 5",
	},
	{
		"an event comes after its bookmark", both, 2, func(w *history.Watch) { insert(w, 3, bookmark(5)) },
		watchcheck.Bookmarkable, "delete a at revision 5 came after a bookmark at revision 5",
	},
	{
		"a bookmark below an event", both, 2, func(w *history.Watch) { insert(w, 4, bookmark(4)) },
		watchcheck.Bookmarkable, "a bookmark at revision 4 came when the watch was past revision 5",
	},
	{
		"a bookmark below a bookmark", both, 2, func(w *history.Watch) { insert(w, 8, bookmark(11-1), bookmark(9)) },
		watchcheck.Bookmarkable, "a bookmark at revision 9 came when the watch was past revision 10",
	},
	{
		"a bookmark below the start",
		history.WatchRequest{Key: "a", StartRevision: 6, ProgressNotify: true},
		6,
		func(w *history.Watch) { insert(w, 0, bookmark(4)) },
		watchcheck.Bookmarkable, "a bookmark at revision 4 came when the watch was past revision 5",
	},
	{
		"a bookmark from the future", both, 2, func(w *history.Watch) { insert(w, 8, bookmark(11)) },
		watchcheck.Bookmarkable, "although the store never went past 10",
	},
	{
		"a wrong previous value", both, 2, func(w *history.Watch) { w.Responses[2].Events[0].Prev.Value = "x" },
		watchcheck.PrevKV, `came as "x" of revision 2`,
	},
	{
		"an older previous value", both, 2, func(w *history.Watch) { *w.Responses[5].Events[0].Prev = *w.Responses[2].Events[1].Prev },
		watchcheck.PrevKV, `is "b@4" of revision 4, version 2, created at 3, lease 0, and came as "b@3" of revision 3`,
	},
	{
		"a previous value of a new key", both, 2, func(w *history.Watch) { w.Responses[4].Events[0].Prev = w.Responses[3].Events[0].Prev },
		watchcheck.PrevKV, "the previous key-value of put a at revision 6 is none, and came as",
	},
	{
		"no previous value", both, 2, func(w *history.Watch) { w.Responses[6].Events[0].Prev = nil },
		watchcheck.PrevKV, "revision 8, version 3, created at 3, lease 0, and came as none",
	},
	{
		"a previous value that nobody asked for",
		history.WatchRequest{Key: "a", StartRevision: 2},
		2,
		func(w *history.Watch) { w.Responses[0].Events[0].Prev = &history.KeyValue{} },
		watchcheck.PrevKV, "the previous key-value of put a at revision 2 is none",
	},
	{
		"a write passes for a creation", both, 2, func(w *history.Watch) { w.Responses[7].Events[0].CreateRevision = 10 },
		watchcheck.IsCreate, "put a at revision 10 says that the key was created at revision 10, and it was at revision 6",
	},
	{
		"a creation passes for a write", both, 2, func(w *history.Watch) { w.Responses[4].Events[0].CreateRevision = 2 },
		watchcheck.IsCreate, "put a at revision 6 says that the key was created at revision 2, and it was at revision 6",
	},
	{
		"another key",
		history.WatchRequest{Key: "a", StartRevision: 6},
		6, func(w *history.Watch) {
			insert(w, 1, sampleHistory().watch(history.WatchRequest{Key: "z", StartRevision: 7}, 7).Responses[0])
		},
		watchcheck.Filter, "put z at revision 7 does not match the request",
	},
	{
		"a delete in spite of the filter", both, 2, func(w *history.Watch) { w.Request.NoDelete = true },
		watchcheck.Filter, "delete a at revision 5 does not match the request",
	},
	{
		"another value", both, 2, func(w *history.Watch) { w.Responses[0].Events[0].Value = "x" },
		watchcheck.Genuine, `put a at revision 2 came as "x" of revision 2`,
	},
	{
		"an event that never happened", both, 2, func(w *history.Watch) {
			w.Responses[7].Events = append(w.Responses[7].Events, history.Event{KeyValue: history.KeyValue{Key: "b", ModRevision: 11}})
		},
		watchcheck.Genuine, "put b at revision 11 never happened",
	},
	{
		"an empty response", both, 2, func(w *history.Watch) { insert(w, 1, history.WatchResponse{}) },
		watchcheck.Genuine, "a response says nothing",
	},
	{
		"a header that is older than its events", both, 2, func(w *history.Watch) { w.Responses[5].Revision = 7 },
		watchcheck.Genuine, "the header of a response is of revision 7 and it brings put b at revision 8",
	},
	{
		"a silent end", both, 2, func(w *history.Watch) { w.End = history.EndedByItself },
		watchcheck.Terminal, "its channel was closed without a last response",
	},
	{
		"an end without a reason", both, 2, func(w *history.Watch) { end(w, history.WatchResponse{Canceled: true}) },
		watchcheck.Terminal, "its last response has no error",
	},
	{
		"an end that a client outlives", both, 2, func(w *history.Watch) {
			end(w, history.WatchResponse{Canceled: true, Err: errors.New("connection reset")})
		},
		watchcheck.Terminal, "a reason that a client outlives: connection reset",
	},
	{
		"an end for the leader's absence that nobody wanted", both, 2,
		func(w *history.Watch) { end(w, history.WatchResponse{Canceled: true, Err: rpctypes.ErrNoLeader}) },
		watchcheck.Terminal, "which its reader did not ask to be told",
	},
	{
		"two ends", both, 4, func(w *history.Watch) {
			w.Responses = nil
			end(w, compaction(3))
			end(w, compaction(3))
		},
		watchcheck.Terminal, "a response came after the last one",
	},
	{
		"an end without a close", both, 4, func(w *history.Watch) {
			w.Request.Key, w.Request.RangeEnd = "c", ""
			w.Responses = []history.WatchResponse{compaction(3)}
		},
		watchcheck.Terminal, "its channel stayed open after the last response",
	},
	{
		"a compaction that nobody made", both, 99, func(w *history.Watch) { end(w, compaction(4)) },
		watchcheck.Compacted, "a compaction to revision 4, which nobody made",
	},
	{
		"a compaction below what had been delivered", both, 2, func(w *history.Watch) { end(w, compaction(5)) },
		watchcheck.Compacted, "although it had come to 11",
	},
	{
		"a compaction to the very next revision", both, 2, func(w *history.Watch) {
			w.Responses = w.Responses[:3]
			end(w, compaction(5))
		},
		watchcheck.Compacted, "although it had come to 5, which is still there",
	},
	{
		"a creation that nobody asked for", both, 2,
		func(w *history.Watch) { insert(w, 0, history.WatchResponse{Created: true, Revision: 9}) },
		watchcheck.Created, "response 0 tells of its creation: true; its reader asked for that: false",
	},
	{
		"no creation", both, 2, func(w *history.Watch) { w.Request.CreatedNotify = true },
		watchcheck.Created, "response 0 tells of its creation: false; its reader asked for that: true",
	},
	{
		"a second creation after a reconnect",
		history.WatchRequest{Key: "a", StartRevision: 2, CreatedNotify: true},
		2,
		func(w *history.Watch) { insert(w, 3, history.WatchResponse{Created: true, Revision: 9}) },
		watchcheck.Created, "response 3 tells of its creation: true",
	},
	{
		"a bookmark that nobody asked for",
		history.WatchRequest{Key: "a", StartRevision: 2},
		2,
		func(w *history.Watch) { w.Responses = append(w.Responses, bookmark(10)) },
		watchcheck.Asked, "a bookmark came that nobody had asked for",
	},
}

func TestPlantedViolations(t *testing.T) {
	broken := map[watchcheck.Promise]bool{}
	for _, tt := range planted {
		t.Run(tt.name, func(t *testing.T) {
			w := sampleHistory().watch(tt.request, tt.start)
			if tt.change != nil {
				tt.change(&w)
			}
			v := evaluate(t, w)
			require.Equal(t, []watchcheck.Promise{tt.want}, slices.Collect(maps.Keys(v.Counts)), "%+v", v.Violations)
			assert.Contains(t, v.Violations[0].Message, tt.message)
			assert.Contains(t, v.Violations[0].Message, "watch 1 ")
			assert.False(t, v.OK())
		})
		broken[tt.want] = true
	}
	assert.Len(t, broken, 14, "a fault is planted for every promise")
}

func TestEvidence(t *testing.T) {
	w := sampleHistory().watch(both, 2)
	insert(&w, 4, w.Responses[3])
	v := evaluate(t, w)
	require.Len(t, v.Violations, 1)
	assert.Equal(t, tally.Violation{
		Promise: watchcheck.Unique,
		Message: `watch 1 of {"Key":"a","RangeEnd":"c","StartRevision":2,"PrevKV":true,"ProgressNotify":true}: delete a at revision 5 came again`,
		Evidence: []string{
			"response 3 at 0.000000s, header revision 5: 1 events, revisions 5 to 5",
			"response 4 at 0.000000s, header revision 5: 1 events, revisions 5 to 5",
		},
	}, v.Violations[0])
}
