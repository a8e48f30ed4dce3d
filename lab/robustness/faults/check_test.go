package faults

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// The keys of the groups of the planted histories.
var keysOfOne, keysOfOther = group{}.keys("/p/"), group{index: 1}.keys("/p/")

// answered returns a call on the first group.
func answered(request model.Request, revision int64, succeeded bool, results ...model.Result) call {
	return call{Operation: model.Operation{
		Request: request, Response: model.Response{Revision: revision, Succeeded: succeeded, Results: results},
	}}
}

func put(value string, revision int64) call {
	act := model.Act{Verb: model.Write, Key: putKey, Value: value}
	return answered(model.Request{Kind: model.Put, Then: []model.Act{act}}, revision, true, model.Result{})
}

func get(key int, revision int64, is model.KV) call {
	return answered(model.Request{Kind: model.Get, Then: reads[key]}, revision, true, model.Result{KV: is})
}

func serializable(key int, revision int64, is model.KV) call {
	return answered(model.Request{Kind: model.SerializableGet, Then: reads[key]}, revision, true, model.Result{KV: is})
}

func txnRequest(value string, counter int64) model.Request {
	c := caller{kind: model.Txn, counter: counter}
	request := c.write()
	for i := range request.Then {
		request.Then[i].Value = value
	}
	return request
}

// increment is a txn that found its counter at a revision, refusal one that found another counter.
func increment(value string, counter, revision int64) call {
	return answered(txnRequest(value, counter), revision, true, model.Result{}, model.Result{})
}

func refusal(value string, counter, revision int64, is model.KV) call {
	return answered(txnRequest(value, counter), revision, false, model.Result{KV: is})
}

func ended(o history.Outcome, c call) call {
	c.Outcome, c.Response = o, model.Response{}
	return c
}

func elsewhere(c call) call {
	c.group.index = 1
	return c
}

// is is a key as its first write made it, and again as a later one did.
func is(value string, revision int64) model.KV { return again(value, revision, revision, 1) }

func again(value string, created, revision, version int64) model.KV {
	return model.KV{Value: value, CreateRevision: created, ModRevision: revision, Version: version}
}

// wroteKey returns the event that made a key of the first group what it is.
func wroteKey(key int, kv model.KV) history.Event { return event(keysOfOne[key], kv) }

func event(key string, kv model.KV) history.Event {
	return history.Event{KeyValue: history.KeyValue{
		Key: key, Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version,
	}}
}

// incremented returns the events of a txn.
func incremented(kv model.KV) []history.Event {
	return []history.Event{wroteKey(counterKey, kv), wroteKey(txnKey, kv)}
}

// check checks calls, one after the other, against the events of a store at revision 100.
func check(calls []call, events ...history.Event) (*checker, string) {
	for i := range calls {
		calls[i].Call, calls[i].Return = time.Duration(2*i+1)*time.Millisecond, time.Duration(2*i+2)*time.Millisecond
	}
	c := &checker{prefix: "/p/", events: events, through: 100, counts: &tally.Counts{}, verdict: &tally.Verdict{}}
	c.checkCalls(calls)
	return c, c.counts.String()
}

func TestGoodCalls(t *testing.T) {
	c, counts := check([]call{
		put("x", 2), get(putKey, 2, is("x", 2)), increment("a", 0, 3), get(counterKey, 3, is("a", 3)), increment("b", 3, 4),
		refusal("c", 3, 4, again("b", 3, 4, 2)), serializable(putKey, 1, model.KV{}), serializable(counterKey, 3, is("a", 3)),
		ended(history.Unknown, put("y", 0)), ended(history.Unknown, put("z", 0)), ended(history.Unknown, put("w", 0)),
		ended(history.Unknown, increment("d", 4, 0)), ended(history.Unknown, increment("e", 4, 0)), refusal("f", 4, 9, again("e", 3, 8, 3)),
		ended(history.Failed, put("v", 0)), ended(history.Failed, get(putKey, 0, model.KV{})), elsewhere(get(putKey, 12, model.KV{})),
	},
		wroteKey(putKey, is("x", 2)), wroteKey(counterKey, is("a", 3)), wroteKey(txnKey, is("a", 3)),
		wroteKey(counterKey, again("b", 3, 4, 2)), wroteKey(txnKey, again("b", 3, 4, 2)), wroteKey(putKey, again("z", 2, 5, 2)),
		event("/else", is("x", 6)), wroteKey(putKey, again("w", 2, 7, 3)),
		wroteKey(counterKey, again("e", 3, 8, 3)), wroteKey(txnKey, again("e", 3, 8, 3)))
	assert.True(t, c.verdict.OK(), "%v", c.verdict)
	assert.Equal(t, "answers              linearizable 8, revisions behind at most 3, serializable 2\n"+
		"groups               checked 2, operations at most 16\n"+
		"writes               acknowledged 3, refused 3, unknown 5, unknown and never seen 2\n", counts)
}

func TestPlantedFaultsOfCallsAreFound(t *testing.T) {
	type calls = []call
	type events = []history.Event
	x, lost := wroteKey(putKey, is("x", 2)), ended(history.Unknown, increment("a", 0, 0))
	twice := events{x, wroteKey(putKey, again("x", 2, 7, 2))}
	one := incremented(is("a", 5))
	two := slices.Concat(one, incremented(again("b", 5, 6, 2)))
	for name, tt := range map[string]struct {
		calls   calls
		events  events
		message string // that no order explains an answer, unless it says so
	}{
		"an acknowledged put is lost":                     {calls{put("x", 3)}, nil, ""},
		"an acknowledged put is not found by a later get": {calls{put("x", 2), get(putKey, 2, model.KV{})}, events{x}, ""},
		"a put is executed twice":                         {calls{put("x", 2)}, twice, ""},
		"an unknown put is executed twice":                {calls{ended(history.Unknown, put("x", 0))}, twice, ""},
		"the second execution of a put is acknowledged":   {calls{put("x", 7)}, twice, ""},
		"a failed put took effect":                        {calls{ended(history.Failed, put("x", 0))}, events{x}, ""},
		"an unknown put was executed before it was sent": {
			calls{get(counterKey, 12, model.KV{}), ended(history.Unknown, put("x", 0))},
			events{x},
			"by its revision it comes before an operation that had returned",
		},
		"a counter is old under a new header":             {calls{increment("a", 0, 5), increment("b", 5, 6), get(counterKey, 6, is("a", 5))}, two, ""},
		"a txn that was not executed sees an old counter": {calls{increment("a", 0, 5), increment("b", 5, 6), refusal("c", 7, 6, is("a", 5))}, two, ""},
		"a txn whose comparison holds is not executed":    {calls{increment("a", 0, 5), refusal("b", 5, 6, is("a", 5))}, one, ""},
		"an acknowledged increment is lost":               {calls{increment("a", 0, 5), increment("b", 5, 6)}, one, ""},
		"a txn is executed, and says that it was not":     {calls{refusal("a", 0, 5, is("a", 5)), increment("b", 5, 6)}, two, ""},
		"a txn is executed against its comparison":        {calls{increment("a", 0, 5), increment("b", 0, 6)}, two, ""},
		"a read finds what the store never had":           {calls{lost, get(counterKey, 5, is("a", 5))}, nil, ""},
		"a serializable get lacks an early write":         {calls{put("x", 2), serializable(putKey, 2, model.KV{})}, events{x}, ""},
		"a txn writes its key alone":                      {calls{lost}, one[1:], ""},
		"a txn writes its counter alone":                  {calls{lost}, one[:1], ""},
		"a wrong value is stored":                         {calls{put("y", 2)}, events{x}, ""},
		"a wrong value is read":                           {calls{put("x", 2), get(putKey, 2, is("y", 2))}, events{x}, ""},
		"a key that no call wrote":                        {calls{get(putKey, 1, model.KV{})}, one[1:], ""},
		"a delete": {calls{put("x", 2)}, events{
			x, {Type: history.DeleteEvent, KeyValue: history.KeyValue{Key: keysOfOne[putKey], ModRevision: 3}},
		}, ""},
		"a key that no call is about":         {nil, events{x}, "put /p/put/0/0 at revision 2: no operation is on that key"},
		"a revision that the store never had": {calls{get(putKey, 101, model.KV{})}, nil, "revision 101, and the store is at 100"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := check(tt.calls, tt.events...)
			require.Equal(t, map[tally.Promise]int{model.Linear: 1}, c.verdict.Counts, "%v", c.verdict)
			assert.Contains(t, c.verdict.Violations[0].Message, cmp.Or(tt.message, "answers fit, and then "))
		})
	}
}

// TestCallsThatWentBackwards has calls on different keys.
func TestCallsThatWentBackwards(t *testing.T) {
	c, _ := check([]call{put("x", 12), elsewhere(put("y", 12))}, wroteKey(putKey, is("x", 12)), event(keysOfOther[putKey], is("y", 12)))
	assert.Equal(t, map[tally.Promise]int{WentBackwards: 1}, c.verdict.Counts, "a put is acknowledged at a revision that is known")
	c, _ = check([]call{put("x", 12), elsewhere(get(putKey, 11, model.KV{}))}, wroteKey(putKey, is("x", 12)))
	assert.Equal(t, []tally.Violation{{
		Promise: WentBackwards,
		Message: "get answered at revision 11 although revision 12 had been answered before it was sent",
		Evidence: []string{
			"put of /p/put/0/0 by client 0, from 0.001000s to 0.002000s: revision 12",
			"get of /p/put/1/0 by client 0, from 0.003000s to 0.004000s: revision 11",
		},
	}}, c.verdict.Violations)
}

// TestLeasesThatEndEarly has a key that was gone at a moment, by the clock of the record.
func TestLeasesThatEndEarly(t *testing.T) {
	key := "/leases/1"
	for name, tt := range map[string]struct {
		gone time.Duration
		want string
	}{
		"under the grant":   {2 * time.Second, "/leases/1 of lease a1 was gone at 2.000000s, and the client claimed at 1.000000s that the lease lives until 4.000000s"},
		"under a renewal":   {5 * time.Second, "/leases/1 of lease a1 was gone at 5.000000s, and the client claimed at 3.000000s that the lease lives until 6.000000s"},
		"when all was over": {6 * time.Second, ""},
		"a claim after it":  {0, "/leases/1 of lease a1 was gone at 0.000000s, and the client claimed at 1.000000s that the lease lives until 4.000000s"},
		"the key is there":  {-1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := &checker{
				counts: &tally.Counts{}, verdict: &tally.Verdict{}, at: func(int64) time.Duration { return tt.gone },
				events: []history.Event{{KeyValue: history.KeyValue{Key: key, ModRevision: 2}}},
			}
			if tt.gone >= 0 {
				c.events = append(c.events, history.Event{Type: history.DeleteEvent, KeyValue: history.KeyValue{Key: key, ModRevision: 3}})
			}
			c.checkLeases([]*lease{{id: 0xa1, key: key, claims: []claim{{time.Second, 4 * time.Second}, {3 * time.Second, 6 * time.Second}}}})
			assert.Equal(t, 2, c.counts.Of("leases", "claims"))
			if tt.want == "" {
				assert.True(t, c.verdict.OK(), "%v", c.verdict)
				return
			}
			require.Equal(t, map[tally.Promise]int{LeaseEndedEarly: 1}, c.verdict.Counts)
			assert.Equal(t, tt.want, c.verdict.Violations[0].Message)
		})
	}
}
