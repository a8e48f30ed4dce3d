package model

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout is far above what the histories here take.
const testTimeout = time.Minute

// kv is the key as it is after its first write, and rewritten after a later one.
func kv(value string, revision int64) KV { return rewritten(value, revision, revision, 1) }

func rewritten(value string, created, modified, version int64) KV {
	return KV{Value: value, CreateRevision: created, ModRevision: modified, Version: version}
}

// during gives an operation its time and, with it, a client of its own, since
// operations of a test overlap at will.
func during(call, ret int, op Operation) Operation {
	op.Client, op.Call, op.Return = call, time.Duration(call), time.Duration(ret)
	return op
}

// inTurn has operations follow each other, the first from 1 to 2, by client 1, the next from 3 to 4, by client 3.
func inTurn(operations ...Operation) []Operation {
	for i, op := range operations {
		operations[i] = during(2*i+1, 2*i+2, op)
	}
	return operations
}

func answer(kind Kind, act Act, revision int64, result Result) Operation {
	return Operation{
		Outcome:  Answered,
		Request:  Request{Kind: kind, Then: []Act{act}},
		Response: Response{Revision: revision, Succeeded: true, Results: []Result{result}},
	}
}

func get(key int, revision int64, is KV) Operation {
	return answer(Get, Act{Verb: Read, Key: key}, revision, Result{KV: is})
}

func serializable(key int, revision int64, is KV) Operation {
	return answer(SerializableGet, Act{Verb: Read, Key: key}, revision, Result{KV: is})
}

func put(key int, value string, revision int64) Operation {
	return answer(Put, Act{Verb: Write, Key: key, Value: value}, revision, Result{})
}

func putOver(key int, value string, revision int64, was KV) Operation {
	return answer(Put, Act{Verb: Write, Key: key, Value: value, Prev: true}, revision, Result{KV: was})
}

func remove(key int, revision, deleted int64) Operation {
	return answer(Delete, Act{Verb: Remove, Key: key}, revision, Result{Deleted: deleted})
}

func txn(request Request, revision int64, succeeded bool, results ...Result) Operation {
	request.Kind = Txn
	return Operation{Outcome: Answered, Request: request, Response: Response{Revision: revision, Succeeded: succeeded, Results: results}}
}

func unknown(op Operation) Operation {
	op.Outcome, op.Response, op.Err = Unknown, Response{}, "the connection broke"
	return op
}

func failed(op Operation) Operation {
	op.Outcome, op.Response, op.Err = Failed, Response{}, "refused"
	return op
}

func shared(op Operation) Operation {
	op.Request.Shared = true
	return op
}

var (
	writeBoth = Request{Then: []Act{{Verb: Write, Key: 0, Value: "x"}, {Verb: Write, Key: 1, Value: "y"}}}
	readBoth  = []Act{{Verb: Read, Key: 0}, {Verb: Read, Key: 1}}
)

func snapshot(revision int64, first, second KV) Operation {
	return Operation{
		Outcome:  Answered,
		Request:  Request{Kind: Snapshot, Then: readBoth},
		Response: Response{Revision: revision, Succeeded: true, Results: []Result{{KV: first}, {KV: second}}},
	}
}

// swap is a txn that puts a value on key 0 if the comparison holds, and reads it
// otherwise.
func swap(value string, compare Compare) Request {
	return Request{If: []Compare{compare}, Then: []Act{{Verb: Write, Value: value}}, Else: []Act{{Verb: Read}}}
}

func requirePage(t *testing.T, f Finding) {
	t.Helper()
	var page bytes.Buffer
	require.NoError(t, f.Visualize(&page))
	assert.Contains(t, page.String(), "<html")
}

func TestLinearizable(t *testing.T) {
	tests := map[string][]Operation{
		"nothing":              nil,
		"a read after a write": inTurn(put(0, "x", 5), get(0, 5, kv("x", 5))),
		"a read beside a write sees it or not": {
			during(1, 9, put(0, "x", 5)), during(2, 8, get(0, 4, KV{})), during(3, 7, get(0, 6, kv("x", 5))),
		},
		"writes beside each other take effect in either order": {
			during(1, 9, put(0, "x", 6)), during(2, 8, put(0, "y", 5)), during(10, 11, get(0, 6, rewritten("x", 5, 6, 2))),
		},
		"a write, a delete, and a write": inTurn(put(0, "x", 5), remove(0, 6, 1), get(0, 6, KV{}), remove(0, 6, 0), put(0, "y", 7), get(0, 7, kv("y", 7))),
		"what was there before": inTurn(
			putOver(0, "x", 5, KV{}), putOver(0, "y", 6, kv("x", 5)),
			answer(Delete, Act{Verb: Remove, Prev: true}, 7, Result{Deleted: 1, KV: rewritten("y", 5, 6, 2)}),
		),
		"shared writes of one revision": {
			during(1, 3, shared(put(0, "x", 5))), during(2, 4, shared(put(1, "y", 5))),
			during(5, 6, snapshot(5, kv("x", 5), kv("y", 5))),
		},
		"shared deletes of one revision, and one that deletes nothing": {
			during(1, 2, txn(writeBoth, 5, true, Result{}, Result{})), during(3, 9, shared(remove(0, 6, 1))),
			during(3, 8, shared(remove(1, 6, 1))), during(4, 9, shared(remove(2, 6, 0))),
			during(10, 11, snapshot(6, KV{}, KV{})),
		},
		"an unknown shared write with the revision of an answered one": {
			during(1, 4, shared(put(0, "x", 5))), during(2, 3, shared(unknown(put(1, "y", 0)))),
			during(5, 6, snapshot(5, kv("x", 5), kv("y", 5))),
		},
		"an unknown shared write that nobody sees, with the revision of an answered one": {
			during(0, 1, put(2, "w", 4)),
			during(1, 4, shared(put(0, "x", 5))), during(2, 3, shared(unknown(put(1, "y", 0)))),
			during(5, 6, putOver(1, "z", 6, KV{})),
		},
		"unknown shared writes that nobody sees, with the revision of an answered one, and count": {
			during(0, 1, put(2, "w", 4)),
			during(1, 4, shared(put(0, "x", 5))), during(2, 3, shared(unknown(put(1, "y", 0)))), during(2, 3, shared(unknown(put(2, "v", 0)))),
			during(5, 6, put(1, "z", 6)), during(7, 8, get(1, 6, rewritten("z", 5, 6, 2))),
			during(9, 10, put(2, "u", 7)), during(11, 12, get(2, 7, rewritten("u", 4, 7, 3))),
		},
		"a failed write that nobody sees":            inTurn(failed(put(0, "x", 0)), get(0, 5, KV{})),
		"an unknown write that never takes effect":   inTurn(unknown(put(0, "x", 0)), get(0, 5, KV{}), put(0, "y", 6), get(0, 6, kv("y", 6))),
		"an unknown write that takes effect at once": inTurn(unknown(put(0, "x", 0)), get(0, 5, kv("x", 5))),
		"an unknown write that takes effect after it was found missing": inTurn(
			unknown(put(0, "x", 0)), get(0, 5, KV{}), put(0, "y", 6), get(0, 6, kv("y", 6)), get(0, 8, rewritten("x", 6, 8, 2)),
		),
		"an unknown write that nobody sees, but counts": inTurn(unknown(put(0, "x", 0)), put(0, "y", 6), get(0, 6, rewritten("y", 5, 6, 2))),
		"an unknown delete that took effect":            inTurn(put(0, "x", 5), unknown(remove(0, 0, 0)), get(0, 6, KV{})),
		"an unknown delete that takes effect late":      inTurn(put(0, "x", 5), unknown(remove(0, 0, 0)), get(0, 5, kv("x", 5)), get(0, 9, KV{})),
		"an unknown delete of what is not there":        inTurn(unknown(remove(0, 0, 0)), get(0, 6, KV{})),
		"an unknown txn that is seen on both keys":      inTurn(unknown(txn(writeBoth, 0, true)), snapshot(5, kv("x", 5), kv("y", 5))),
		"an unknown txn that nobody sees, but on which another one depends": inTurn(
			unknown(put(0, "x", 0)), txn(swap("y", Compare{Target: Value, Value: "x"}), 6, true, Result{}),
		),
		"a txn whose comparison does not hold": inTurn(
			put(0, "x", 5), txn(swap("y", Compare{Target: ModRevision, Number: 4}), 5, false, Result{KV: kv("x", 5)}),
			txn(swap("z", Compare{Target: Value, Value: "x", NotEqual: true}), 5, false, Result{KV: kv("x", 5)}),
		),
		"a value compared on an absent key": inTurn(txn(swap("y", Compare{Target: Value, Value: "x", NotEqual: true}), 5, false, Result{})),
		"txns whose comparisons hold": inTurn(
			txn(swap("y", Compare{Target: CreateRevision}), 5, true, Result{}), txn(swap("z", Compare{Target: Version, Number: 1}), 6, true, Result{}),
			txn(swap("w", Compare{Target: ModRevision, Number: 6}), 7, true, Result{}),
			txn(swap("v", Compare{Target: CreateRevision, Number: 5}), 8, true, Result{}),
		),
		"a txn that reads before it writes": inTurn(
			put(0, "x", 5),
			txn(Request{Then: []Act{{Verb: Read}, {Verb: Write, Value: "y"}, {Verb: Read}}}, 6, true, Result{KV: kv("x", 5)}, Result{}, Result{KV: rewritten("y", 5, 6, 2)}),
		),
		"a serializable read of the past": inTurn(
			put(0, "x", 5), put(0, "y", 6), serializable(0, 5, kv("x", 5)), serializable(0, 2, KV{}), serializable(0, 6, rewritten("y", 5, 6, 2)),
		),
		"a txn whose other branch is refused": inTurn(txn(Request{
			If: []Compare{{Target: Version, Number: 1}}, Then: []Act{{Verb: Write, Value: "x", MissingLease: true}}, Else: []Act{{Verb: Read}},
		}, 5, false, Result{})),
		"a refused write of unknown outcome": inTurn(unknown(answer(Put, Act{Verb: Write, Value: "x", MissingLease: true}, 0, Result{})), get(0, 7, KV{})),
		"failed and unknown reads": {
			during(1, 2, failed(get(0, 0, KV{}))), during(1, 2, unknown(get(0, 0, KV{}))),
		},
	}
	for name, operations := range tests {
		t.Run(name, func(t *testing.T) {
			finding := Check(History{Operations: operations}, testTimeout)
			assert.Equal(t, Linearizable, finding.Verdict, finding.Message)
			requirePage(t, finding)
		})
	}
}

// stuck says of how many answers how many fit, and which client's fits nowhere.
func stuck(fit string, client int) string {
	return fmt.Sprintf("%s answers fit, and then client %d", fit, client)
}

func TestViolated(t *testing.T) {
	const late = "by its revision it comes before an operation that had returned when it was called"
	tests := map[string]struct {
		operations []Operation
		says       string // the message
	}{
		"a lost write":                             {inTurn(put(0, "x", 5), get(0, 6, KV{})), stuck("1 of 2", 3)},
		"a lost write, overwritten":                {inTurn(put(0, "x", 5), putOver(0, "y", 6, KV{})), stuck("1 of 2", 3)},
		"a write that took effect twice":           {inTurn(put(0, "x", 6), get(0, 6, rewritten("x", 5, 6, 2))), stuck("1 of 2", 3)},
		"a write that took effect once more later": {inTurn(put(0, "x", 5), get(0, 5, kv("x", 5)), get(0, 7, rewritten("x", 5, 7, 2))), stuck("2 of 3", 5)},
		"an unknown write that took effect twice":  {inTurn(unknown(put(0, "x", 0)), get(0, 5, kv("x", 5)), get(0, 7, rewritten("x", 5, 7, 2))), stuck("2 of 3", 5)},
		"an unknown write that took effect unseen, twice": {inTurn(
			unknown(put(0, "x", 0)), put(0, "y", 7), get(0, 7, rewritten("y", 5, 7, 3)),
		), stuck("1 of 2", 5)},
		"an unknown write that is overwritten and back": {inTurn(
			unknown(put(0, "x", 0)), get(0, 5, kv("x", 5)), put(0, "y", 6), get(0, 6, rewritten("y", 5, 6, 2)), get(0, 8, rewritten("x", 5, 8, 3)),
		), stuck("4 of 5", 9)},
		"an unknown write that is undone":                  {inTurn(unknown(put(0, "x", 0)), get(0, 5, kv("x", 5)), get(0, 6, KV{})), stuck("2 of 3", 5)},
		"an unknown write that is seen before it was made": {inTurn(get(0, 5, kv("x", 5)), unknown(put(0, "x", 0))), late},
		"an unknown delete that took effect twice": {inTurn(
			put(0, "x", 5), unknown(remove(0, 0, 0)), get(0, 6, KV{}), put(0, "y", 7), get(0, 8, KV{}),
		), stuck("3 of 4", 9)},
		"half of an unknown txn": {inTurn(unknown(txn(writeBoth, 0, true)), snapshot(5, kv("x", 5), KV{})), stuck("1 of 2", 3)},
		"an unknown txn whose comparison did not hold": {inTurn(
			put(0, "x", 5), unknown(txn(swap("y", Compare{Target: Version}), 0, true)), get(0, 6, rewritten("y", 5, 6, 2)),
		), "but its value was seen at revision 6"},
		"a failed write that took effect":        {inTurn(failed(put(0, "x", 0)), get(0, 5, kv("x", 5))), stuck("0 of 1", 3)},
		"a failed write that took effect unseen": {inTurn(failed(put(0, "x", 0)), put(0, "y", 6), get(0, 6, rewritten("y", 5, 6, 2))), stuck("1 of 2", 5)},
		"a failed delete that took effect":       {inTurn(put(0, "x", 5), failed(remove(0, 0, 0)), get(0, 6, KV{})), stuck("1 of 2", 5)},
		"a stale read":                           {inTurn(put(0, "x", 5), put(0, "y", 6), get(0, 5, kv("x", 5))), late},
		"a read of a value that nobody wrote":    {inTurn(get(0, 5, kv("x", 5))), stuck("0 of 1", 1)},
		"reads whose revisions go back":          {inTurn(get(0, 6, KV{}), get(1, 5, KV{})), late},
		"a write whose revision is of the past":  {inTurn(put(0, "x", 6), put(1, "y", 5)), late},
		"two writes of one revision": {[]Operation{
			during(1, 2, put(0, "x", 5)), during(1, 2, put(1, "y", 5)),
		}, stuck("1 of 2", 1)},
		"shared writes of one revision to one key": {[]Operation{
			during(1, 2, shared(put(0, "x", 5))), during(1, 2, shared(put(0, "y", 5))),
		}, stuck("1 of 2", 1)},
		"a shared write with the revision of one that is not": {[]Operation{
			during(1, 2, shared(put(0, "x", 5))), during(1, 2, put(1, "y", 5)),
		}, stuck("1 of 2", 1)},
		"shared writes of one revision, one after the other": {inTurn(shared(put(0, "x", 5)), shared(put(1, "y", 5)), get(1, 5, KV{})), stuck("2 of 3", 5)},
		"an unknown shared write of the same key with the revision of an answered one": {[]Operation{
			during(0, 1, put(2, "w", 4)),
			during(1, 4, shared(put(0, "x", 5))), during(2, 3, shared(unknown(put(0, "y", 0)))), during(5, 6, get(0, 5, rewritten("x", 5, 5, 2))),
		}, stuck("2 of 3", 5)},
		"half of a txn": {inTurn(txn(writeBoth, 5, true, Result{}, Result{}), snapshot(5, kv("x", 5), KV{})), stuck("1 of 2", 3)},
		"a txn that succeeds against its comparison": {inTurn(
			put(0, "x", 5), txn(swap("y", Compare{Target: ModRevision, Number: 4}), 6, true, Result{}),
		), stuck("1 of 2", 3)},
		"a txn that does not succeed though its comparison holds": {inTurn(
			put(0, "x", 5), txn(swap("y", Compare{Target: Value, Value: "x"}), 5, false, Result{KV: kv("x", 5)}),
		), stuck("1 of 2", 3)},
		"a wrong previous value":                 {inTurn(put(0, "x", 5), put(0, "y", 6), putOver(0, "z", 7, kv("x", 5))), stuck("2 of 3", 5)},
		"a previous value that nobody asked for": {inTurn(answer(Put, Act{Verb: Write, Value: "x"}, 5, Result{KV: kv("y", 4)})), stuck("0 of 1", 1)},
		"a wrong create revision":                {inTurn(put(0, "x", 5), get(0, 5, rewritten("x", 4, 5, 1))), stuck("1 of 2", 3)},
		"the create revision of an unknown write that came later": {inTurn(
			get(0, 5, KV{}), unknown(put(0, "x", 0)), put(0, "y", 8), get(0, 8, rewritten("y", 5, 8, 2)),
		), stuck("2 of 3", 7)},
		"a delete that deleted nothing":                 {inTurn(put(0, "x", 5), remove(0, 5, 0)), stuck("1 of 2", 3)},
		"a delete of what is not there":                 {inTurn(remove(0, 5, 1)), stuck("0 of 1", 1)},
		"a serializable read of a state that never was": {inTurn(put(0, "x", 5), put(0, "y", 6), serializable(0, 6, kv("x", 5))), stuck("2 of 3", 5)},
		"a serializable read of the future":             {inTurn(serializable(0, 5, kv("x", 5)), put(0, "x", 5)), late},
		"a refused write that is answered":              {inTurn(answer(Put, Act{Verb: Write, Value: "x", MissingLease: true}, 5, Result{})), stuck("0 of 1", 1)},
		"a refused write of unknown outcome that took effect": {inTurn(
			unknown(answer(Put, Act{Verb: Write, Value: "x", MissingLease: true}, 0, Result{})), put(0, "y", 6), get(0, 6, rewritten("y", 5, 6, 2)),
		), stuck("1 of 2", 5)},
		"results that are missing": {inTurn(txn(writeBoth, 5, true)), stuck("0 of 1", 1)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			finding := Check(History{Operations: tt.operations}, testTimeout)
			require.Equal(t, Violated, finding.Verdict)
			assert.Contains(t, finding.Message, tt.says)
			requirePage(t, finding)
		})
	}
}

// TestClaimedRevisions holds an unknown write to the revisions that are left to it.
func TestClaimedRevisions(t *testing.T) {
	operations := inTurn(put(1, "w", 4), unknown(put(0, "x", 0)), put(0, "y", 7), get(0, 7, rewritten("y", 5, 7, 2)))
	for claims, want := range map[string]Verdict{"": Linearizable, "6": Linearizable, "5 6": Violated} {
		finding := Check(History{Operations: operations, Claimed: func(revision int64) bool {
			return strings.Contains(claims, string(rune('0'+revision)))
		}}, testTimeout)
		assert.Equal(t, want, finding.Verdict, "claimed: %s", claims)
		assert.Equal(t, 1, finding.Unseen)
	}
}

// TestUndecided gives the search no time for a history that needs some.
func TestUndecided(t *testing.T) {
	operations := []Operation{during(0, 1, put(0, "first", 5))}
	for i := range 40 {
		operations = append(operations, during(2, 3, unknown(put(i%Keys, "unknown"+string(rune('A'+i)), 0))))
	}
	operations = append(operations, during(4, 5, get(0, 500, rewritten("unknownA", 5, 300, 60))))
	finding := Check(History{Operations: operations}, time.Millisecond)
	assert.Equal(t, Undecided, finding.Verdict)
	assert.Contains(t, finding.Message, "39 of them writes of unknown outcome that nobody saw, are not decided in 1ms")
}
