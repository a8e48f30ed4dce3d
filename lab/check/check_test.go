package check_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/check"
	"github.com/quorate/quorate/lab/history"
)

// run drives a checker through a script, with a clock that ticks.
type run struct {
	c   *check.Checker
	now time.Duration
}

func (r *run) do(call history.Call) int64 {
	call.Start = r.tick()
	t := r.c.Invoke(call)
	call.End = r.tick()
	return r.c.Return(t, call)
}

func (r *run) tick() time.Duration {
	r.now += time.Millisecond
	return r.now
}

func putKey(seq int64) history.Key { return history.Key{Space: history.Puts, Seq: seq} }
func txnKey(seq int64) history.Key { return history.Key{Space: history.Txns, Seq: seq} }

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
	return history.Call{Kind: history.Txn, Key: txnKey(seq), Want: want, Revision: revision, Applied: true}
}

func refusal(seq, want, revision, value, mod int64) history.Call {
	return history.Call{
		Kind: history.Txn, Key: txnKey(seq), Want: want, Revision: revision,
		Read: history.Reading{Found: true, Value: fmt.Sprint(value), ModRevision: mod},
	}
}

func lostTxn(seq, want int64) history.Call {
	return history.Call{Kind: history.Txn, Key: txnKey(seq), Want: want, Outcome: history.Unknown, Err: errors.New("cut")}
}

func get(k history.Key, revision int64, read history.Reading) history.Call {
	return history.Call{Kind: history.LinearizableGet, Key: k, Revision: revision, Read: read}
}

func found(k history.Key, mod int64) history.Reading {
	return history.Reading{Found: true, Value: k.Value(), ModRevision: mod}
}

func stored(k history.Key, mod int64) check.Stored {
	return check.Stored{Key: k, Value: k.Value(), ModRevision: mod, Version: 1}
}

func counter(value, mod int64) check.Stored {
	return check.Stored{Key: history.CounterOf(0), Value: fmt.Sprint(value), ModRevision: mod, Version: value}
}

func TestHistories(t *testing.T) {
	tests := []struct {
		name  string
		calls []history.Call
		store []check.Stored
		want  []check.Problem
		// message is a part of the first violation's message.
		message string
	}{
		{
			name: "all is well",
			calls: []history.Call{
				put(0, 2, history.OK), get(putKey(0), 2, found(putKey(0), 2)), increment(0, 0, 3),
				get(history.CounterOf(0), 3, history.Reading{Found: true, Value: "1", ModRevision: 3}),
				increment(1, 1, 4), refusal(2, 1, 4, 2, 4),
			},
			store: []check.Stored{stored(putKey(0), 2), stored(txnKey(0), 3), stored(txnKey(1), 4), counter(2, 4)},
		},
		{
			name: "unknown writes may be there or not",
			calls: []history.Call{
				put(0, 0, history.Unknown), put(1, 0, history.Unknown), put(2, 0, history.Abandoned),
				lostTxn(0, 0), lostTxn(1, 0), refusal(2, 0, 9, 1, 8),
			},
			store: []check.Stored{stored(putKey(1), 5), stored(putKey(2), 6), stored(txnKey(1), 8), counter(1, 8)},
		},
		{
			name:    "acknowledged put is missing",
			calls:   []history.Call{put(0, 2, history.OK), put(1, 3, history.OK)},
			store:   []check.Stored{stored(putKey(0), 2)},
			want:    []check.Problem{check.LostWrite},
			message: "put/0/1 was acknowledged at revision 3 and is missing at revision 100",
		},
		{
			name:    "every acknowledged put of a caller is missing",
			calls:   []history.Call{put(0, 2, history.OK)},
			want:    []check.Problem{check.LostWrite},
			message: "put/0/0",
		},
		{
			name:    "acknowledged put is not found by a later get",
			calls:   []history.Call{put(0, 2, history.OK), get(putKey(0), 2, history.Reading{})},
			store:   []check.Stored{stored(putKey(0), 2)},
			want:    []check.Problem{check.LostWrite},
			message: "later linearizable get does not find it",
		},
		{
			name:    "put applied twice",
			calls:   []history.Call{put(0, 2, history.OK)},
			store:   []check.Stored{{Key: putKey(0), Value: putKey(0).Value(), ModRevision: 7, Version: 2}},
			want:    []check.Problem{check.AppliedTwice},
			message: "sent once and written 2 times",
		},
		{
			name:    "a get sees the second application",
			calls:   []history.Call{put(0, 2, history.OK), get(putKey(0), 7, found(putKey(0), 7))},
			store:   []check.Stored{stored(putKey(0), 7)},
			want:    []check.Problem{check.AppliedTwice, check.AppliedTwice},
			message: "acknowledged at revision 2, and is found at revision 7",
		},
		{
			name:    "refused put took effect",
			calls:   []history.Call{put(0, 0, history.Failed)},
			store:   []check.Stored{stored(putKey(0), 4)},
			want:    []check.Problem{check.RefusedApplied},
			message: "told that the write had no effect",
		},
		{
			name:    "revision goes backwards",
			calls:   []history.Call{put(0, 12, history.OK), get(putKey(1), 11, history.Reading{})},
			store:   []check.Stored{stored(putKey(0), 12)},
			want:    []check.Problem{check.WentBackwards},
			message: "linearizable get answered at revision 11 although revision 12 had been answered",
		},
		{
			name:    "a put is acknowledged below what is known",
			calls:   []history.Call{put(0, 12, history.OK), put(1, 12, history.OK)},
			store:   []check.Stored{stored(putKey(0), 12), stored(putKey(1), 12)},
			want:    []check.Problem{check.WentBackwards},
			message: "put answered at revision 12",
		},
		{
			name: "a counter goes backwards under a fresh header",
			calls: []history.Call{
				increment(0, 0, 5), increment(1, 1, 6),
				get(history.CounterOf(0), 6, history.Reading{Found: true, Value: "1", ModRevision: 5}),
			},
			store:   []check.Stored{stored(txnKey(0), 5), stored(txnKey(1), 6), counter(2, 6)},
			want:    []check.Problem{check.WentBackwards},
			message: "saw counter/0 as of revision 5 although its write at revision 6",
		},
		{
			name:    "a refused txn sees an old counter",
			calls:   []history.Call{increment(0, 0, 5), increment(1, 1, 6), refusal(2, 2, 6, 1, 5)},
			store:   []check.Stored{stored(txnKey(0), 5), stored(txnKey(1), 6), counter(2, 6)},
			want:    []check.Problem{check.WentBackwards},
			message: "txn saw counter/0 as of revision 5",
		},
		{
			name:    "an increment is lost",
			calls:   []history.Call{increment(0, 0, 5), increment(1, 1, 6)},
			store:   []check.Stored{stored(txnKey(0), 5), counter(1, 5)},
			want:    []check.Problem{check.LostWrite, check.LostWrite},
			message: "txn/0/1 was acknowledged at revision 6 and is missing",
		},
		{
			name:    "a resent txn applies and is then told that it did not",
			calls:   []history.Call{refusal(0, 0, 5, 1, 5), increment(1, 1, 6)},
			store:   []check.Stored{stored(txnKey(0), 5), stored(txnKey(1), 6), counter(2, 6)},
			want:    []check.Problem{check.RefusedApplied, check.AppliedTwice},
			message: "txn/0/0 exists, written at revision 5",
		},
		{
			name: "an unknown increment that was seen is lost",
			calls: []history.Call{
				lostTxn(0, 0), get(history.CounterOf(0), 5, history.Reading{Found: true, Value: "1", ModRevision: 5}),
			},
			want:    []check.Problem{check.WentBackwards},
			message: "counter/0 is found as of revision 0 although its write at revision 5",
		},
		{
			name:    "the store is read back from the past",
			calls:   []history.Call{get(putKey(0), 101, history.Reading{})},
			want:    []check.Problem{check.WentBackwards},
			message: "read back at revision 100 although revision 101",
		},
		{
			name: "a serializable get of a late revision lacks an early write",
			calls: []history.Call{
				put(0, 2, history.OK), {Kind: history.SerializableGet, Key: putKey(0), Revision: 2},
			},
			store:   []check.Stored{stored(putKey(0), 2)},
			want:    []check.Problem{check.LostWrite},
			message: "a later serializable get does not find it",
		},
		{
			name:    "an increment without the key beside it",
			calls:   []history.Call{lostTxn(0, 0)},
			store:   []check.Stored{counter(1, 5)},
			want:    []check.Problem{check.TornTxn},
			message: "counter/0 is 1 at revision 100, and 0 keys were written beside it",
		},
		{
			name:    "wrong value",
			calls:   []history.Call{put(0, 2, history.OK)},
			store:   []check.Stored{{Key: putKey(0), Value: "put/0/9", ModRevision: 2, Version: 1}},
			want:    []check.Problem{check.WrongValue},
			message: `put/0/0 holds "put/0/9" instead of "put/0/0"`,
		},
		{
			name: "keys that nobody wrote",
			store: []check.Stored{
				stored(putKey(3), 2), stored(history.Key{Space: history.Puts, Caller: -1, Seq: -1}, 3),
				{Key: history.CounterOf(0), Value: "x"},
			},
			want:    []check.Problem{check.WrongValue, check.WrongValue, check.WrongValue},
			message: "put/0/3 exists and was never written",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &run{c: check.New()}
			for _, call := range tt.calls {
				r.do(call)
			}
			audit := r.c.Audit()
			for _, s := range tt.store {
				audit.See(s)
			}
			audit.Finish(100)
			v := r.c.Verdict()
			var got []check.Problem
			for _, violation := range v.Violations {
				got = append(got, violation.Promise)
			}
			require.Equal(t, tt.want, got, "%+v", v.Violations)
			assert.Equal(t, len(tt.want) == 0, v.OK())
			assert.Equal(t, len(tt.want), v.Total())
			assert.True(t, v.Audited)
			if len(tt.want) > 0 {
				assert.Contains(t, v.Violations[0].Message, tt.message)
			}
		})
	}
}

func TestEvidenceHasBothObservations(t *testing.T) {
	r := &run{c: check.New()}
	r.do(put(0, 12, history.OK))
	r.do(get(putKey(0), 11, history.Reading{}))
	v := r.c.Verdict()
	require.NotEmpty(t, v.Violations)
	assert.Equal(t, []string{
		"put of put/0/0 by caller 0, from 0.001000s to 0.002000s: revision 12",
		"linearizable get of put/0/0 by caller 0, from 0.003000s to 0.004000s: revision 11, found nothing",
	}, v.Violations[0].Evidence)
}

func TestConcurrentCallsAreNotOrdered(t *testing.T) {
	c := check.New()
	read := get(putKey(0), 10, history.Reading{})
	ticket := c.Invoke(read) // sent before the put has been acknowledged
	write := put(0, 11, history.OK)
	c.Return(c.Invoke(write), write)
	c.Return(ticket, read)
	assert.True(t, c.Verdict().OK())
}

func TestFailedReadsProveNothing(t *testing.T) {
	r := &run{c: check.New()}
	r.do(put(0, 12, history.OK))
	failed := get(putKey(0), 0, history.Reading{})
	failed.Outcome = history.Failed
	r.do(failed)
	v := r.c.Verdict()
	assert.True(t, v.OK())
	assert.EqualValues(t, 1, v.LinearizableAnswers)
}

func TestSerializableReadsMayBeOld(t *testing.T) {
	r := &run{c: check.New()}
	r.do(put(0, 12, history.OK))
	stale := history.Call{Kind: history.SerializableGet, Key: putKey(0), Revision: 5}
	assert.EqualValues(t, 7, r.do(stale))
	fresh := stale
	fresh.Revision, fresh.Read = 13, found(putKey(0), 12)
	assert.Zero(t, r.do(fresh))
	r.do(get(putKey(0), 12, found(putKey(0), 12))) // a serializable answer is no floor
	v := r.c.Verdict()
	assert.True(t, v.OK())
	assert.EqualValues(t, 2, v.SerializableReads)
	assert.EqualValues(t, 7, v.MaxBehind)
}

func TestWritesAreCounted(t *testing.T) {
	r := &run{c: check.New()}
	r.do(put(0, 2, history.OK))
	r.do(put(1, 0, history.Unknown))
	r.do(put(2, 0, history.Unknown))
	r.do(put(3, 0, history.Failed))
	a := r.c.Audit()
	a.See(stored(putKey(0), 2))
	a.See(stored(putKey(2), 3))
	a.Finish(3)
	v := r.c.Verdict()
	assert.True(t, v.OK())
	assert.EqualValues(t, 1, v.AcknowledgedWrites)
	assert.EqualValues(t, 2, v.UnknownWrites)
	assert.EqualValues(t, 1, v.UnknownApplied)
	assert.EqualValues(t, 1, v.RefusedWrites)
	assert.EqualValues(t, 3, v.AuditRevision)
}

func TestViolationsAreBoundedAndCounted(t *testing.T) {
	r := &run{c: check.New()}
	for seq := range int64(1000) {
		r.do(put(seq, seq+2, history.OK))
	}
	r.c.Audit().Finish(2000)
	v := r.c.Verdict()
	assert.Len(t, v.Violations, 10)
	assert.Equal(t, map[check.Problem]int{check.LostWrite: 1000}, v.Counts)
	assert.Equal(t, 1000, v.Total())
}

func TestConcurrentUse(t *testing.T) {
	c := check.New()
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		revision int64
	)
	for caller := range 8 {
		wg.Go(func() {
			for seq := range int64(500) {
				call := history.Call{Kind: history.Put, Caller: caller, Key: history.Key{Space: history.Puts, Caller: caller, Seq: seq}}
				ticket := c.Invoke(call)
				mu.Lock()
				revision++
				call.Revision = revision
				mu.Unlock()
				c.Return(ticket, call)
			}
		})
	}
	wg.Wait()
	v := c.Verdict()
	assert.True(t, v.OK())
	assert.EqualValues(t, 4000, v.LinearizableAnswers)
}
