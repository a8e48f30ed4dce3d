package model

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab/robustness/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// happened returns the events of a store. "0x5 1-6" has a put of x to key 0 at revision 5, and key 1 deleted at revision 6.
func happened(store string) (events []history.Event) {
	keys := map[string]KV{}
	for word := range strings.FieldsSeq(store) {
		key, value := word[:1], word[1:2]
		revision, _ := strconv.ParseInt(word[2:], 10, 64)
		e := history.Event{Type: history.DeleteEvent, KeyValue: history.KeyValue{Key: key, ModRevision: revision}}
		kv := KV{}
		if value != "-" {
			kv = keys[key].put(value, revision)
			e = history.Event{KeyValue: history.KeyValue{
				Key: key, Value: value, CreateRevision: kv.CreateRevision, ModRevision: revision, Version: kv.Version,
			}}
		}
		keys[key] = kv
		events = append(events, e)
	}
	return events
}

// check checks operations with what happened in a store that is at revision 99.
func check(t *testing.T, store string, operations []Operation) Finding {
	t.Helper()
	record := NewRecord("", happened(store), 99)
	finding := record.Check([Keys]string{"0", "1", "2"}, operations)
	assert.Empty(t, record.events, "events of other keys")
	var page bytes.Buffer
	require.NoError(t, finding.Visualize(&page))
	assert.Contains(t, page.String(), "<html")
	return finding
}

var (
	lost = during(3, 4, unknown(remove(0, 0, 0)))
	// elsePuts writes a key if another one exists, and deletesOrPuts deletes one that was written once.
	elsePuts      = Request{Kind: Txn, If: []Compare{{Target: Version}}, Then: []Act{{Verb: Read}}, Else: []Act{{Verb: Write, Key: 1, Value: "z"}}}
	deletesOrPuts = Request{Kind: Txn, If: []Compare{{Target: Version, Number: 1}}, Then: []Act{{Verb: Remove}}, Else: []Act{{Verb: Write, Value: "z"}}}
)

func TestLinearizable(t *testing.T) {
	tests := map[string]struct {
		store      string
		operations []Operation
		unseen     int
	}{
		"nothing":              {},
		"a read after a write": {"0x5", inTurn(put(0, "x", 5), get(0, 5, kv("x", 5))), 0},
		"a read beside a write sees it or not": {"0x5", []Operation{
			during(1, 9, put(0, "x", 5)), during(2, 8, get(0, 4, KV{})), during(3, 7, get(0, 6, kv("x", 5))),
		}, 0},
		"writes beside each other take effect in either order": {"0y5 0x6", []Operation{
			during(1, 9, put(0, "x", 6)), during(2, 8, put(0, "y", 5)), during(10, 11, get(0, 6, rewritten("x", 5, 6, 2))),
		}, 0},
		"a write, a delete, and a write": {
			"0x5 0-6 0y7", inTurn(put(0, "x", 5), remove(0, 6, 1), get(0, 6, KV{}), remove(0, 6, 0), put(0, "y", 7), get(0, 7, kv("y", 7))), 0,
		},
		"what was there before": {"0x5 0y6 0-7", inTurn(
			putOver(0, "x", 5, KV{}), putOver(0, "y", 6, kv("x", 5)),
			answer(Delete, Act{Verb: Remove, Prev: true}, 7, Result{Deleted: 1, KV: rewritten("y", 5, 6, 2)}),
		), 0},
		"shared writes of one revision": {"0x5 1y5", []Operation{
			during(1, 3, shared(put(0, "x", 5))), during(2, 4, shared(put(1, "y", 5))),
			during(5, 6, snapshot(5, kv("x", 5), kv("y", 5))),
		}, 0},
		"shared deletes of one revision, and one that deletes nothing": {"0x5 1y5 0-6 1-6", []Operation{
			during(1, 2, txn(writeBoth, 5, true, Result{}, Result{})), during(3, 9, shared(remove(0, 6, 1))),
			during(3, 8, shared(remove(1, 6, 1))), during(4, 9, shared(remove(2, 6, 0))),
			during(10, 11, snapshot(6, KV{}, KV{})),
		}, 0},
		"an unknown shared write with the revision of an answered one": {"0x5 1y5", []Operation{
			during(1, 4, shared(put(0, "x", 5))), during(2, 3, shared(unknown(put(1, "y", 0)))),
			during(5, 6, snapshot(5, kv("x", 5), kv("y", 5))),
		}, 0},
		"unknown shared deletes of one revision": {"0x5 1y5 0-6 1-6", []Operation{
			during(1, 2, txn(writeBoth, 5, true, Result{}, Result{})), shared(lost), shared(during(3, 4, unknown(remove(1, 0, 0)))),
		}, 0},
		"an unknown shared delete with the revision of an answered put, and one that is not shared": {"0x5 0-6 2w6 0v7 0-8", []Operation{
			during(1, 2, put(0, "x", 5)), lost, shared(lost), during(3, 4, shared(put(2, "w", 6))), during(5, 6, put(0, "v", 7)),
		}, 0},
		"a failed write that nobody sees":            {"", inTurn(failed(put(0, "x", 0)), get(0, 5, KV{})), 0},
		"an unknown write that never takes effect":   {"0y6", inTurn(unknown(put(0, "x", 0)), get(0, 5, KV{}), put(0, "y", 6), get(0, 6, kv("y", 6))), 1},
		"an unknown write that takes effect at once": {"0x5", inTurn(unknown(put(0, "x", 0)), get(0, 5, kv("x", 5))), 0},
		"an unknown write that takes effect after it was found missing": {"0y6 0x8", inTurn(
			unknown(put(0, "x", 0)), get(0, 5, KV{}), put(0, "y", 6), get(0, 6, kv("y", 6)), get(0, 8, rewritten("x", 6, 8, 2)),
		), 0},
		"an unknown write that no client sees":     {"0x5 0y6", inTurn(unknown(put(0, "x", 0)), put(0, "y", 6), get(0, 6, rewritten("y", 5, 6, 2))), 0},
		"an unknown delete that takes effect late": {"0x5 0-7", inTurn(put(0, "x", 5), unknown(remove(0, 0, 0)), get(0, 5, kv("x", 5)), get(0, 9, KV{})), 0},
		"an unknown delete of what is not there":   {"", inTurn(unknown(remove(0, 0, 0)), get(0, 6, KV{})), 1},
		"two deletes of which the later was late": {"0x5 0-6 0y7", []Operation{
			during(1, 2, put(0, "x", 5)), lost, during(5, 6, put(0, "y", 7)), during(7, 8, unknown(remove(0, 0, 0))),
		}, 1},
		"an unknown txn that is seen on both keys": {"0x5 1y5", inTurn(unknown(txn(writeBoth, 0, true)), snapshot(5, kv("x", 5), kv("y", 5))), 0},
		"an unknown txn that took the other branch": {
			"0x5 1z6", []Operation{during(1, 2, put(0, "x", 5)), during(3, 4, unknown(txn(elsePuts, 0, true)))}, 0,
		},
		"an unknown txn that deleted, and would have put otherwise": {
			"0x5 0-6", []Operation{during(1, 2, put(0, "x", 5)), during(3, 4, unknown(txn(deletesOrPuts, 0, true)))}, 0,
		},
		"a txn that depends on an unknown write": {"0x5 0y6", inTurn(
			unknown(put(0, "x", 0)), txn(swap("y", Compare{Target: Value, Value: "x"}), 6, true, Result{}),
		), 0},
		"a txn whose comparison does not hold": {"0x5", inTurn(
			put(0, "x", 5), txn(swap("y", Compare{Target: ModRevision, Number: 4}), 5, false, Result{KV: kv("x", 5)}),
			txn(swap("z", Compare{Target: Value, Value: "x", NotEqual: true}), 5, false, Result{KV: kv("x", 5)}),
		), 0},
		"a value compared on an absent key": {"", inTurn(txn(swap("y", Compare{Target: Value, Value: "x", NotEqual: true}), 5, false, Result{})), 0},
		"txns whose comparisons hold": {"0y5 0z6 0w7 0v8", inTurn(
			txn(swap("y", Compare{Target: CreateRevision}), 5, true, Result{}), txn(swap("z", Compare{Target: Version, Number: 1}), 6, true, Result{}),
			txn(swap("w", Compare{Target: ModRevision, Number: 6}), 7, true, Result{}),
			txn(swap("v", Compare{Target: CreateRevision, Number: 5}), 8, true, Result{}),
		), 0},
		"a txn that reads before it writes": {"0x5 0y6", inTurn(
			put(0, "x", 5),
			txn(Request{Then: []Act{{Verb: Read}, {Verb: Write, Value: "y"}, {Verb: Read}}}, 6, true, Result{KV: kv("x", 5)}, Result{}, Result{KV: rewritten("y", 5, 6, 2)}),
		), 0},
		"a serializable read of the past": {"0x5 0y6", inTurn(
			put(0, "x", 5), put(0, "y", 6), serializable(0, 5, kv("x", 5)), serializable(0, 2, KV{}), serializable(0, 6, rewritten("y", 5, 6, 2)),
		), 0},
		"a txn whose other branch is refused": {"", inTurn(txn(Request{
			If: []Compare{{Target: Version, Number: 1}}, Then: []Act{{Verb: Write, Value: "x", MissingLease: true}}, Else: []Act{{Verb: Read}},
		}, 5, false, Result{})), 0},
		"a refused write of unknown outcome": {"", inTurn(unknown(answer(Put, Act{Verb: Write, Value: "x", MissingLease: true}, 0, Result{})), get(0, 7, KV{})), 1},
		"failed and unknown reads": {"", []Operation{
			during(1, 2, failed(get(0, 0, KV{}))), during(1, 2, unknown(get(0, 0, KV{}))),
		}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			finding := check(t, tt.store, tt.operations)
			assert.Equal(t, Linearizable, finding.Verdict, finding.Message)
			assert.Equal(t, tt.unseen, finding.Unseen)
		})
	}
}

// stuck says of how many answers how many fit, and which client's fits nowhere.
func stuck(fit string, client int) string {
	return fmt.Sprintf("%s answers fit, and then client %d", fit, client)
}

func TestViolated(t *testing.T) {
	const late = "by its revision it comes before an operation that had returned when it was called"
	const event = "the record of the store"
	tests := map[string]struct {
		store      string
		operations []Operation
		says       string // the message
	}{
		"a lost write":                 {"", inTurn(put(0, "x", 5)), stuck("0 of 1", 1)},
		"a write that is not read":     {"0x5", inTurn(put(0, "x", 5), get(0, 6, KV{})), stuck("1 of 2", 3)},
		"a write that is not there":    {"0x5 0y6", inTurn(put(0, "x", 5), putOver(0, "y", 6, KV{})), stuck("1 of 3", 3)},
		"a write with another value":   {"0y5", inTurn(put(0, "x", 5)), stuck("0 of 2", 1)},
		"a write that was made twice":  {"0x5 0x6", inTurn(put(0, "x", 6)), event},
		"an unknown write, made twice": {"0x5 0x7", inTurn(unknown(put(0, "x", 0)), get(0, 5, kv("x", 5))), event},
		"an unknown write that is seen before it was made": {
			"0x5", inTurn(get(0, 5, kv("x", 5)), unknown(put(0, "x", 0))), late,
		},
		"an unknown write that was made before it was sent": {"0x5", inTurn(get(1, 7, KV{}), unknown(put(0, "x", 0))), late},
		"an unknown delete that was made twice":             {"0x5 0-6 0y7 0-8", inTurn(put(0, "x", 5), unknown(remove(0, 0, 0)), get(0, 6, KV{}), put(0, "y", 7)), event},
		"an unknown delete that was made before it was sent": {
			"0x5 0-6", inTurn(put(0, "x", 5), get(1, 7, KV{}), unknown(remove(0, 0, 0))), event,
		},
		"half of an unknown txn": {"0x5", inTurn(unknown(txn(writeBoth, 0, true))), stuck("0 of 1", 1)},
		"an unknown txn whose comparison did not hold": {"0x5 0y6", inTurn(
			put(0, "x", 5), unknown(txn(swap("y", Compare{Target: Version}), 0, true)),
		), "but it took effect at revision 6"},
		"a failed write that was made":          {"0x5", inTurn(failed(put(0, "x", 0))), event},
		"a failed delete that was made":         {"0x5 0-6", inTurn(put(0, "x", 5), failed(remove(0, 0, 0))), event},
		"a stale read":                          {"0x5 0y6", inTurn(put(0, "x", 5), put(0, "y", 6), get(0, 5, kv("x", 5))), late},
		"a read of a value that nobody wrote":   {"", inTurn(get(0, 5, kv("x", 5))), stuck("0 of 1", 1)},
		"an event that nobody made":             {"0x5", nil, event},
		"an answer from after all revisions":    {"", inTurn(get(0, 101, KV{})), "answered at revision 101, and the store is at 99"},
		"reads whose revisions go back":         {"", inTurn(get(0, 6, KV{}), get(1, 5, KV{})), late},
		"a write whose revision is of the past": {"1y5 0x6", inTurn(put(0, "x", 6), put(1, "y", 5)), late},
		"two writes of one revision": {"0x5 1y5", []Operation{
			during(1, 2, put(0, "x", 5)), during(1, 2, put(1, "y", 5)),
		}, "another write has its revision"},
		"shared writes of one revision to one key": {"0x5", []Operation{
			during(1, 2, shared(put(0, "x", 5))), during(1, 2, shared(put(0, "y", 5))),
		}, stuck("1 of 2", 1)},
		"a shared write with the revision of one that is not": {"0x5 1y5", []Operation{
			during(1, 2, shared(put(0, "x", 5))), during(1, 2, put(1, "y", 5)),
		}, "another write has its revision"},
		"an unknown delete, not shared, with the revision of another write": {"0x5 0-6 1y6", []Operation{
			during(1, 2, put(0, "x", 5)), lost, during(3, 4, shared(put(1, "y", 6))),
		}, event},
		"half of a txn": {"0x5", inTurn(txn(writeBoth, 5, true, Result{}, Result{})), stuck("0 of 1", 1)},
		"a txn that succeeds against its comparison": {"0x5 0y6", inTurn(
			put(0, "x", 5), txn(swap("y", Compare{Target: ModRevision, Number: 4}), 6, true, Result{}),
		), stuck("1 of 3", 3)},
		"a txn that does not succeed though its comparison holds": {"0x5", inTurn(
			put(0, "x", 5), txn(swap("y", Compare{Target: Value, Value: "x"}), 5, false, Result{KV: kv("x", 5)}),
		), stuck("1 of 2", 3)},
		"a wrong previous value":                 {"0x5 0y6 0z7", inTurn(put(0, "x", 5), put(0, "y", 6), putOver(0, "z", 7, kv("x", 5))), stuck("2 of 4", 5)},
		"a previous value that nobody asked for": {"0x5", inTurn(answer(Put, Act{Verb: Write, Value: "x"}, 5, Result{KV: kv("y", 4)})), stuck("0 of 2", 1)},
		"a wrong create revision":                {"0x5", inTurn(put(0, "x", 5), get(0, 5, rewritten("x", 4, 5, 1))), stuck("1 of 2", 3)},
		"a delete that deleted nothing":          {"0x5", inTurn(put(0, "x", 5), remove(0, 5, 0)), stuck("1 of 2", 3)},
		"a delete of what is not there":          {"", inTurn(remove(0, 5, 1)), stuck("0 of 1", 1)},
		"a serializable read of a state that never was": {
			"0x5 0y6", inTurn(put(0, "x", 5), put(0, "y", 6), serializable(0, 6, kv("x", 5))), stuck("2 of 3", 5),
		},
		"a serializable read of the future": {"0x5", inTurn(serializable(0, 5, kv("x", 5)), put(0, "x", 5)), late},
		"a refused write that is answered":  {"0x5", inTurn(answer(Put, Act{Verb: Write, Value: "x", MissingLease: true}, 5, Result{})), stuck("0 of 2", 1)},
		"a refused write of unknown outcome that was made": {
			"0x5", inTurn(unknown(answer(Put, Act{Verb: Write, Value: "x", MissingLease: true}, 0, Result{}))), "but it took effect at revision 5",
		},
		"results that are missing": {"0x5 1y5", inTurn(txn(writeBoth, 5, true)), stuck("0 of 3", 1)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			finding := check(t, tt.store, tt.operations)
			require.Equal(t, Violated, finding.Verdict)
			assert.Contains(t, finding.Message, tt.says)
			assert.NotContains(t, finding.Message, never.String())
		})
	}
}
