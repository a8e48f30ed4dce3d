package callcheck_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/callcheck"
	"github.com/quorate/quorate/lab/robustness/history"
)

// sequence gives each call a time after the one before.
func sequence(calls ...history.Call) []history.Call {
	for i := range calls {
		calls[i].Start, calls[i].End = time.Duration(2*i+1)*time.Millisecond, time.Duration(2*i+2)*time.Millisecond
	}
	return calls
}

// checked checks calls, one after the other, against events.
func checked(calls []history.Call, events ...history.Event) callcheck.Verdict {
	v, _ := counted(calls, events...)
	return v
}

// counted is checked with what was counted.
func counted(calls []history.Call, events ...history.Event) (callcheck.Verdict, string) {
	counts := &tally.Counts{}
	v := callcheck.Check(callcheck.History{Events: events, Through: 100, Calls: sequence(calls...)}, counts)
	return v, counts.String()
}

const counter = "counter/0"

func putKey(seq int64) string { return fmt.Sprint("put/0/", seq) }
func txnKey(seq int64) string { return fmt.Sprint("txn/0/", seq) }

func put(seq, revision int64, o history.Outcome) history.Call {
	call := history.Call{Kind: history.Put, Key: putKey(seq), Outcome: o}
	if o == history.OK {
		call.Revision = revision
	} else {
		call.Err = errors.New("no answer")
	}
	return call
}

func increment(seq, want, revision int64) history.Call {
	return history.Call{Kind: history.Txn, Key: txnKey(seq), Counter: counter, Want: want, Revision: revision, Applied: true}
}

func refusal(seq, want, revision, value, mod int64) history.Call {
	return history.Call{
		Kind: history.Txn, Key: txnKey(seq), Counter: counter, Want: want, Revision: revision,
		Read: history.Reading{Found: true, Value: fmt.Sprint(value), ModRevision: mod},
	}
}

func lostTxn(seq, want int64) history.Call {
	return history.Call{Kind: history.Txn, Key: txnKey(seq), Counter: counter, Want: want, Outcome: history.Unknown, Err: errors.New("cut")}
}

func get(k string, revision int64, read history.Reading) history.Call {
	return history.Call{Kind: history.LinearizableGet, Key: k, Revision: revision, Read: read}
}

func found(k string, mod int64) history.Reading {
	return history.Reading{Found: true, Value: k, ModRevision: mod}
}

func written(k string, revision int64) history.Event { return set(k, k, revision) }

func set(k, value string, revision int64) history.Event {
	return history.Event{KeyValue: history.KeyValue{Key: k, Value: value, ModRevision: revision}}
}

// incremented are the events of a txn: the counter has a value, and a key is written beside it.
func incremented(seq, value, revision int64) []history.Event {
	return []history.Event{set(counter, fmt.Sprint(value), revision), written(txnKey(seq), revision)}
}

func events(parts ...any) (all []history.Event) {
	for _, p := range parts {
		switch p := p.(type) {
		case history.Event:
			all = append(all, p)
		case []history.Event:
			all = append(all, p...)
		}
	}
	return all
}

func counterAt(value, mod int64) history.Reading {
	return history.Reading{Found: true, Value: fmt.Sprint(value), ModRevision: mod}
}

func serializable(k string, revision int64, read history.Reading) history.Call {
	return history.Call{Kind: history.SerializableGet, Key: k, Revision: revision, Read: read}
}

func TestHistories(t *testing.T) {
	tests := []struct {
		name   string
		calls  []history.Call
		events []history.Event
		want   callcheck.Problem // the only violation, "" for none
		// message is a part of the violation's message.
		message string
	}{
		{
			name: "all is well",
			calls: []history.Call{
				put(0, 2, history.OK), get(putKey(0), 2, found(putKey(0), 2)), increment(0, 0, 3),
				get(counter, 3, counterAt(1, 3)), increment(1, 1, 4), refusal(2, 1, 4, 2, 4),
				serializable(putKey(0), 1, history.Reading{}), serializable(counter, 3, counterAt(1, 3)),
			},
			events: events(written(putKey(0), 2), incremented(0, 1, 3), incremented(1, 2, 4)),
		},
		{
			name: "unknown writes are executed or not",
			calls: []history.Call{
				put(0, 0, history.Unknown), put(1, 0, history.Unknown), put(2, 0, history.Abandoned),
				lostTxn(0, 0), lostTxn(1, 0), refusal(2, 0, 9, 1, 8),
			},
			events: events(written(putKey(1), 5), written(putKey(2), 6), incremented(1, 1, 8)),
		},
		{
			name:   "an acknowledged put is lost",
			calls:  []history.Call{put(0, 2, history.OK), put(1, 3, history.OK)},
			events: events(written(putKey(0), 2)),
			want:   callcheck.LostWrite, message: "put/0/1 was acknowledged at revision 3, and the store never had it",
		},
		{
			name:   "an acknowledged put is not found by a later get",
			calls:  []history.Call{put(0, 2, history.OK), get(putKey(0), 2, history.Reading{})},
			events: events(written(putKey(0), 2)),
			want:   callcheck.LostWrite, message: "a linearizable get at revision 2 does not find it",
		},
		{
			name:   "a put is executed twice",
			calls:  []history.Call{put(0, 2, history.OK)},
			events: events(written(putKey(0), 2), written(putKey(0), 7)),
			want:   callcheck.AppliedTwice, message: "sent once and written 2 times, last at revision 7",
		},
		{
			name:   "an unknown put is executed twice",
			calls:  []history.Call{put(0, 0, history.Unknown)},
			events: events(written(putKey(0), 2), written(putKey(0), 7)),
			want:   callcheck.AppliedTwice, message: "sent once and written 2 times, last at revision 7",
		},
		{
			name:   "the second execution of a put is acknowledged",
			calls:  []history.Call{put(0, 7, history.OK), get(putKey(0), 7, found(putKey(0), 7))},
			events: events(written(putKey(0), 2), written(putKey(0), 7)),
			want:   callcheck.AppliedTwice, message: "acknowledged at revision 7 and was written at revision 2",
		},
		{
			name:   "a failed put took effect",
			calls:  []history.Call{put(0, 0, history.Failed)},
			events: events(written(putKey(0), 4)),
			want:   callcheck.RefusedApplied, message: "told that the write had no effect",
		},
		{
			name:   "an answer is older than an earlier one",
			calls:  []history.Call{put(0, 12, history.OK), get(putKey(1), 11, history.Reading{})},
			events: events(written(putKey(0), 12)),
			want:   callcheck.WentBackwards, message: "linearizable get answered at revision 11 although revision 12 had been answered",
		},
		{
			name:   "a put is acknowledged at a revision that is known",
			calls:  []history.Call{put(0, 12, history.OK), put(1, 12, history.OK)},
			events: events(written(putKey(0), 12), written(putKey(1), 12)),
			want:   callcheck.WentBackwards, message: "put answered at revision 12",
		},
		{
			name:   "an unknown put was executed before it was sent",
			calls:  []history.Call{get(putKey(9), 12, history.Reading{}), put(0, 0, history.Unknown)},
			events: events(written(putKey(0), 12)),
			want:   callcheck.WentBackwards, message: "put/0/0 was written at revision 12, which had been answered before it was sent",
		},
		{
			name: "a counter is old under a new header",
			calls: []history.Call{
				increment(0, 0, 5), increment(1, 1, 6), get(counter, 6, counterAt(1, 5)),
			},
			events: events(incremented(0, 1, 5), incremented(1, 2, 6)),
			want:   callcheck.WentBackwards, message: "linearizable get at revision 6 saw counter/0 as of revision 5, which was written again at revision 6",
		},
		{
			name:   "a txn that was not executed sees an old counter",
			calls:  []history.Call{increment(0, 0, 5), increment(1, 1, 6), refusal(2, 2, 6, 1, 5)},
			events: events(incremented(0, 1, 5), incremented(1, 2, 6)),
			want:   callcheck.WentBackwards, message: "txn at revision 6 saw counter/0 as of revision 5",
		},
		{
			name:   "a txn whose comparison holds is not executed",
			calls:  []history.Call{increment(0, 0, 5), refusal(1, 1, 6, 1, 5)},
			events: events(incremented(0, 1, 5)),
			want:   callcheck.WrongValue, message: "counter/0 was 1 at revision 6, and a txn that compares it with that was not executed",
		},
		{
			name:   "an acknowledged increment is lost",
			calls:  []history.Call{increment(0, 0, 5), increment(1, 1, 6)},
			events: events(incremented(0, 1, 5)),
			want:   callcheck.LostWrite, message: "txn/0/1 was acknowledged at revision 6, and the store never had it",
		},
		{
			name:   "a txn is sent again after it was executed, and says that it was not",
			calls:  []history.Call{refusal(0, 0, 5, 1, 5), increment(1, 1, 6)},
			events: events(incremented(0, 1, 5), incremented(1, 2, 6)),
			want:   callcheck.RefusedApplied, message: "txn/0/0 was written at revision 5",
		},
		{
			name:   "a txn is executed against its comparison",
			calls:  []history.Call{increment(0, 0, 5), increment(1, 0, 6)},
			events: events(incremented(0, 1, 5), incremented(1, 2, 6)),
			want:   callcheck.WrongValue, message: "counter/0 went from 1 to 2 at revision 6, and txn/0/1 compares it with 0 and adds 1",
		},
		{
			name:  "a read finds an unknown increment that the store never had",
			calls: []history.Call{lostTxn(0, 0), get(counter, 5, counterAt(1, 5))},
			want:  callcheck.WrongValue, message: `found "1" of revision 5 at counter/0, which held "" of revision 0`,
		},
		{
			name:  "an answer is of a revision that the store never had",
			calls: []history.Call{get(putKey(0), 101, history.Reading{})},
			want:  callcheck.WrongValue, message: "answered at revision 101, and the store is at 100",
		},
		{
			name:   "a serializable get of a late revision lacks an early write",
			calls:  []history.Call{put(0, 2, history.OK), serializable(putKey(0), 2, history.Reading{})},
			events: events(written(putKey(0), 2)),
			want:   callcheck.LostWrite, message: "a serializable get at revision 2 does not find it",
		},
		{
			name:   "a txn writes its key alone",
			calls:  []history.Call{lostTxn(0, 0)},
			events: events(written(txnKey(0), 5)),
			want:   callcheck.TornTxn, message: "txn/0/0 was written at revision 5 without counter/0 beside it",
		},
		{
			name:   "a txn writes its counter alone",
			calls:  []history.Call{lostTxn(0, 0)},
			events: events(set(counter, "1", 5)),
			want:   callcheck.TornTxn, message: "counter/0 was set to 1 at revision 5, and nothing was written beside it",
		},
		{
			name:   "a wrong value is stored",
			calls:  []history.Call{put(0, 2, history.OK)},
			events: events(set(putKey(0), "put/0/9", 2)),
			want:   callcheck.WrongValue, message: `put/0/0 holds "put/0/9" instead of its name`,
		},
		{
			name:   "a wrong value is read",
			calls:  []history.Call{put(0, 2, history.OK), get(putKey(0), 2, history.Reading{Found: true, Value: "put/0/9", ModRevision: 2})},
			events: events(written(putKey(0), 2)),
			want:   callcheck.WrongValue, message: `found "put/0/9" of revision 2 at put/0/0, which held "put/0/0" of revision 2`,
		},
		{
			name:   "a key that no call wrote",
			events: events(written(putKey(3), 2)),
			want:   callcheck.WrongValue, message: "put/0/3 exists and was never written",
		},
		{
			name:   "a delete",
			events: []history.Event{{Type: history.DeleteEvent, KeyValue: history.KeyValue{Key: "put/0/0", ModRevision: 3}}},
			want:   callcheck.WrongValue, message: "delete put/0/0 at revision 3: no call does that",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := checked(tt.calls, tt.events...)
			if tt.want == "" {
				assert.True(t, v.OK(), "%v", v)
				return
			}
			require.Equal(t, map[callcheck.Problem]int{tt.want: 1}, v.Counts, "%v", v)
			assert.Contains(t, v.Violations[0].Message, tt.message)
		})
	}
}

func TestEvidenceHasBothObservations(t *testing.T) {
	v := checked([]history.Call{put(0, 12, history.OK), get(putKey(1), 11, history.Reading{})}, written(putKey(0), 12))
	require.NotEmpty(t, v.Violations)
	assert.Equal(t, []string{
		"put of put/0/0 by caller 0, from 0.001000s to 0.002000s: revision 12",
		"linearizable get of put/0/1 by caller 0, from 0.003000s to 0.004000s: revision 11, found nothing",
	}, v.Violations[0].Evidence)
}

func TestConcurrentCallsAreNotOrdered(t *testing.T) {
	read, write := get(putKey(0), 10, history.Reading{}), put(0, 11, history.OK)
	read.Start, write.Start, write.End, read.End = 1, 2, 3, 4
	v := callcheck.Check(callcheck.History{
		Prefix: "put/", Events: events(written("elsewhere", 10), written(putKey(0), 11)), Through: 11, Calls: []history.Call{read, write},
	}, &tally.Counts{})
	assert.True(t, v.OK(), "%v", v)
}

func TestWhatIsCounted(t *testing.T) {
	failed := get(putKey(0), 0, history.Reading{})
	failed.Outcome = history.Failed // which proves nothing
	stale := serializable(putKey(0), 5, history.Reading{})
	v, counts := counted([]history.Call{
		put(0, 12, history.OK), failed, stale, serializable(putKey(0), 13, found(putKey(0), 12)), get(putKey(0), 12, found(putKey(0), 12)),
		put(1, 0, history.Unknown), put(2, 0, history.Unknown), put(3, 0, history.Failed),
	}, written(putKey(0), 12), written(putKey(2), 14))
	assert.True(t, v.OK(), "a serializable answer is no floor: %v", v)
	assert.Equal(t, "answers              linearizable 2, revisions behind at most 7, serializable 2\n"+
		"writes               acknowledged 1, refused 1, unknown 2, unknown and applied 1\n", counts)
}

func look(found bool, answered, until time.Duration) history.LeaseLook {
	return history.LeaseLook{
		Lease: 0x2a, Key: "/l/0/2a", Asked: 2 * time.Second, Answered: answered, Revision: 7, Found: found,
		Claim: history.LeaseClaim{At: time.Second, Until: until},
	}
}

func TestLeasesLiveAsLongAsTheClientClaims(t *testing.T) {
	for name, tt := range map[string]struct {
		look history.LeaseLook
		want int
	}{
		"the key is there":                           {look(true, 3*time.Second, 4*time.Second), 0},
		"the key outlives the claim":                 {look(true, 5*time.Second, 4*time.Second), 0},
		"the key is gone before the claim has ended": {look(false, 3*time.Second, 4*time.Second), 1},
		"the claim has ended":                        {look(false, 5*time.Second, 4*time.Second), 0},
		"the claim ends as the read returns":         {look(false, 4*time.Second, 4*time.Second), 0},
	} {
		t.Run(name, func(t *testing.T) {
			counts := &tally.Counts{}
			v := callcheck.Check(callcheck.History{Looks: []history.LeaseLook{tt.look}}, counts)
			assert.Equal(t, 1, counts.Of("leases", "looks at their keys"))
			require.Equal(t, tt.want, v.Counts[callcheck.LeaseEndedEarly])
			if tt.want > 0 {
				assert.Equal(t, tally.Violation{
					Promise: callcheck.LeaseEndedEarly,
					Message: "lease 2a had ended by 3.000000s, and the client claimed it to live until 4.000000s",
					Evidence: []string{
						"claimed at 1.000000s to live until 4.000000s",
						"linearizable get of /l/0/2a, from 2.000000s to 3.000000s: revision 7, found nothing",
					},
				}, v.Violations[0])
			}
		})
	}
}
