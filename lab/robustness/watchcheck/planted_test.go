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

// planted are faults, each of which breaks one promise. The responses of the whole watch are: 0 a, 1 b, 2 a and b, 3 -a, 4 a,
// 5 b and a, 6 -b, 7 a.
var planted = map[watchcheck.Promise][]struct {
	name    string
	watch   seen
	change  change
	message string
}{
	watchcheck.Ordered: {
		{"a late revision", whole, swapped(3, 4), "delete a at revision 5 came after put a at revision 6"},
		{
			"events of a txn are swapped", whole, func(w *history.Watch) { e := w.Responses[2].Events; e[0], e[1] = e[1], e[0] },
			"put a at revision 4 came after put b at revision 4",
		},
	},
	watchcheck.Unique: {
		{"a response comes again", whole, repeated(3, 4), "delete a at revision 5 came again"},
		{"all comes again from an old revision", whole, repeated(3, 6), "delete a at revision 5 came again"},
	},
	watchcheck.Atomic: {
		{"a revision is split", whole, func(w *history.Watch) {
			second := w.Responses[2]
			w.Responses[2].Events, second.Events = second.Events[:1], second.Events[1:]
			w.Responses = slices.Insert(w.Responses, 3, second)
		}, "revision 4 is split: b came in a later response"},
	},
	watchcheck.Reliable: {
		{
			"a revision is missing", whole, func(w *history.Watch) { w.Responses = slices.Delete(w.Responses, 3, 4) },
			"reached 10, should have reached 10, and 1 events are missing, the first is delete a at revision 5",
		},
		{
			"half a revision is missing", whole, func(w *history.Watch) { w.Responses[5].Events = w.Responses[5].Events[:1] },
			"1 events are missing, the first is put a at revision 8",
		},
		{"the end is missing", whole, ends(history.StillOpen, 6), "reached 8, should have reached 10, and 2 events are missing"},
		{"nothing came", seen{both, 99}, nil, "reached 0, should have reached 10, and 10 events are missing, the first is put a at revision 2"},
		{
			"the end before a bookmark is missing", whole, ends(history.LeftByReader, 6, bookmark(9)),
			"reached 9, should have reached 9, and 1 events are missing, the first is delete b at revision 9",
		},
		{"the first event after the call is missing", seen{request{Key: "a"}, 8}, startedBy(6), "the first is put a at revision 6"},
		{
			"events after the first bookmark are missing",
			seen{request{Key: "a", ProgressNotify: true}, 8},
			inserted(0, bookmark(4)),
			"the first is delete a at revision 5",
		},
		{
			"events after the creation are missing",
			seen{request{Key: "a", CreatedNotify: true}, 6},
			headed(0, 4),
			"reached 10, should have reached 10, and 1 events are missing, the first is delete a at revision 5",
		},
	},
	watchcheck.Resumable: {
		{"the start is skipped", seen{both, 4}, nil, "2 events are missing, the first is put a at revision 2"},
		{
			"it begins before its start",
			seen{request{Key: "a", StartRevision: 5}, 4},
			nil,
			"put a at revision 4 came although the watch starts at revision 5",
		},
	},
	watchcheck.Bookmarkable: {
		{"an event comes after its bookmark", whole, inserted(3, bookmark(5)), "delete a at revision 5 came after a bookmark at revision 5"},
		{"a bookmark below an event", whole, inserted(4, bookmark(4)), "a bookmark at revision 4 came when the watch was past revision 5"},
		{"a bookmark below a bookmark", whole, added(bookmark(10), bookmark(9)), "a bookmark at revision 9 came when the watch was past revision 10"},
		{
			"a bookmark below the start",
			seen{request{Key: "a", StartRevision: 6, ProgressNotify: true}, 6},
			inserted(0, bookmark(4)),
			"a bookmark at revision 4 came when the watch was past revision 5",
		},
		{"a bookmark from the future", whole, added(bookmark(11)), "although the store never went past 10"},
	},
	watchcheck.PrevKV: {
		{"a wrong previous value", whole, spoiled(2, func(e *history.Event) { e.Prev.Value = "x" }), `came as "x" of revision 2`},
		{
			"an older previous value", whole, func(w *history.Watch) { *w.Responses[5].Events[0].Prev = *w.Responses[2].Events[1].Prev },
			`is "b@4" of revision 4, version 2, created at 3, lease 0, and came as "b@3" of revision 3`,
		},
		{
			"a previous value of a new key", whole, func(w *history.Watch) { w.Responses[4].Events[0].Prev = w.Responses[3].Events[0].Prev },
			"the previous key-value of put a at revision 6 is none, and came as",
		},
		{
			"no previous value before a compaction was sent", whole, spoiled(6, func(e *history.Event) { e.Prev = nil }),
			"revision 8, version 3, created at 3, lease 0, and came as none",
		},
		{
			"a previous value that nobody asked for", ofA, spoiled(0, func(e *history.Event) { e.Prev = &history.KeyValue{} }),
			"the previous key-value of put a at revision 2 is none",
		},
	},
	watchcheck.IsCreate: {
		{
			"a write passes for a creation", whole, spoiled(7, func(e *history.Event) { e.CreateRevision = 10 }),
			"put a at revision 10 says that the key was created at revision 10, and it was at revision 6",
		},
		{
			"a creation passes for a write", whole, spoiled(4, func(e *history.Event) { e.CreateRevision = 2 }),
			"put a at revision 6 says that the key was created at revision 2, and it was at revision 6",
		},
	},
	watchcheck.Filter: {
		{
			"another key",
			seen{request{Key: "a", StartRevision: 6}, 6},
			inserted(1, sampleHistory().watch(request{Key: "z", StartRevision: 7}, 7).Responses[0]),
			"put z at revision 7 does not match the request",
		},
		{
			"a delete in spite of the filter", whole, func(w *history.Watch) { w.Request.NoDelete = true },
			"delete a at revision 5 does not match the request",
		},
	},
	watchcheck.Genuine: {
		{"another value", whole, spoiled(0, func(e *history.Event) { e.Value = "x" }), `put a at revision 2 came as "x" of revision 2`},
		{"an event that never happened", whole, func(w *history.Watch) {
			w.Responses[7].Events = append(w.Responses[7].Events, history.Event{KeyValue: history.KeyValue{Key: "b", ModRevision: 11}})
		}, "put b at revision 11 never happened"},
		{"an empty response", whole, inserted(1, history.WatchResponse{}), "a response says nothing"},
		{
			"a header that is older than its events", whole, headed(5, 7),
			"the header of a response is of revision 7 and it brings put b at revision 8",
		},
	},
	watchcheck.Terminal: {
		{"a silent end", whole, ends(history.EndedByItself, 8), "its channel was closed without a last response"},
		{"an end without a reason", whole, failed(8, nil), "its last response has no error"},
		{"an end that a client outlives", whole, failed(8, errors.New("connection reset")), "a reason that a client outlives: connection reset"},
		{"an end for the leader's absence that nobody wanted", whole, failed(8, rpctypes.ErrNoLeader), "which its reader did not ask to be told"},
		{"two ends", whole, ends(history.EndedByItself, 0, compaction(3), compaction(3)), "a response came after the last one"},
		{
			"an end without a close",
			seen{request{Key: "c", StartRevision: 2}, 2},
			added(compaction(3)),
			"its channel stayed open after the last response",
		},
	},
	watchcheck.Compacted: {
		{"a compaction that nobody made", whole, ends(history.EndedByItself, 0, compaction(4)), "a compaction to revision 4, which nobody made"},
		{"a compaction below what had been delivered", whole, ends(history.EndedByItself, 8, compaction(5)), "although it had come to 11"},
		{
			"a compaction to the very next revision", whole, ends(history.EndedByItself, 3, compaction(5)),
			"although it had come to 5, which is still there",
		},
	},
	watchcheck.Created: {
		{
			"a creation that nobody asked for", whole, inserted(0, history.WatchResponse{Created: true, Revision: 9}),
			"response 0 tells of its creation: true; its reader asked for that: false",
		},
		{
			"no creation", whole, func(w *history.Watch) { w.Request.CreatedNotify = true },
			"response 0 tells of its creation: false; its reader asked for that: true",
		},
		{
			"a second creation after a reconnect",
			seen{request{Key: "a", StartRevision: 2, CreatedNotify: true}, 2},
			inserted(3, history.WatchResponse{Created: true, Revision: 9}), "response 3 tells of its creation: true",
		},
	},
	watchcheck.Asked: {
		{"a bookmark that nobody asked for", ofA, added(bookmark(10)), "a bookmark came that nobody had asked for"},
	},
}

func TestPlantedViolations(t *testing.T) {
	for promise, faults := range planted {
		for _, tt := range faults {
			t.Run(tt.name, func(t *testing.T) {
				v := evaluate(t, tt.watch, tt.change)
				require.Equal(t, []watchcheck.Promise{promise}, slices.Collect(maps.Keys(v.Counts)), "%+v", v.Violations)
				assert.Contains(t, v.Violations[0].Message, tt.message)
				assert.Contains(t, v.Violations[0].Message, "watch 1 ")
				assert.False(t, v.OK())
			})
		}
	}
	assert.Len(t, planted, 14, "a fault is planted for every promise")
}

func TestEvidence(t *testing.T) {
	v := evaluate(t, whole, repeated(3, 4))
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
