package model

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/robustness/history"
)

// TestRecord checks histories with what the store went through: events of the keys 0 to 2 of a group.
func TestRecord(t *testing.T) {
	wrote := func(key string, kv KV) history.Event {
		return history.Event{KeyValue: history.KeyValue{
			Key: key, Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version,
		}}
	}
	removed := func(key string, revision int64) history.Event {
		return history.Event{Type: history.DeleteEvent, KeyValue: history.KeyValue{Key: key, ModRevision: revision}}
	}
	x, y := wrote("0", kv("x", 5)), wrote("1", kv("y", 5))
	lost := during(3, 4, unknown(remove(0, 0, 0)))
	either := Request{Kind: Txn, If: []Compare{{Target: Version}}, Then: []Act{{Verb: Read}}, Else: []Act{{Verb: Write, Key: 1, Value: "z"}}}
	deletesOrPuts := Request{Kind: Txn, If: []Compare{{Target: Version, Number: 1}}, Then: []Act{{Verb: Remove}}, Else: []Act{{Verb: Write, Value: "z"}}}
	for name, tt := range map[string]struct {
		operations []Operation
		events     []history.Event
		want       Verdict
		unseen     int
	}{
		"nothing": {want: Linearizable},
		"an unknown put that was executed": {
			[]Operation{during(1, 2, unknown(put(0, "x", 0)))}, []history.Event{x}, Linearizable, 0,
		},
		"an unknown put that was not": {[]Operation{during(1, 2, unknown(put(0, "x", 0)))}, nil, Linearizable, 1},
		"a lost put":                  {[]Operation{during(1, 2, put(0, "x", 5))}, nil, Violated, 0},
		"an unknown delete that was executed": {
			[]Operation{during(1, 2, put(0, "x", 5)), lost}, []history.Event{x, removed("0", 6)}, Linearizable, 1,
		},
		"an unknown delete that was not": {[]Operation{during(1, 2, put(0, "x", 5)), lost}, []history.Event{x}, Linearizable, 1},
		"an unknown delete that was executed twice": {
			[]Operation{during(1, 2, put(0, "x", 5)), lost, during(5, 6, put(0, "w", 7))},
			[]history.Event{x, removed("0", 6), wrote("0", kv("w", 7)), removed("0", 8)},
			Violated, 1,
		},
		"a failed delete that was executed": {
			[]Operation{during(1, 2, put(0, "x", 5)), failed(lost)}, []history.Event{x, removed("0", 6)}, Violated, 0,
		},
		"unknown shared deletes of one revision": {
			[]Operation{during(1, 2, txn(writeBoth, 5, true, Result{}, Result{})), shared(lost), shared(during(3, 4, unknown(remove(1, 0, 0))))},
			[]history.Event{x, y, removed("0", 6), removed("1", 6)},
			Linearizable, 2,
		},
		"an unknown shared delete with the revision of an answered put": {
			[]Operation{during(1, 2, put(0, "x", 5)), shared(lost), during(3, 4, shared(put(2, "w", 6)))},
			[]history.Event{x, removed("0", 6), wrote("2", kv("w", 6))},
			Linearizable, 1,
		},
		"an unknown txn that took the other branch": {
			[]Operation{during(1, 2, put(0, "x", 5)), during(3, 4, unknown(txn(either, 0, true)))},
			[]history.Event{x, wrote("1", kv("z", 6))},
			Linearizable, 0,
		},
		"an unknown txn that deleted, and would have put otherwise": {
			[]Operation{during(1, 2, put(0, "x", 5)), during(3, 4, unknown(txn(deletesOrPuts, 0, true)))},
			[]history.Event{x, removed("0", 6)},
			Linearizable, 1,
		},
		"an unknown txn of which half was executed": {
			[]Operation{during(1, 2, unknown(txn(writeBoth, 0, true)))}, []history.Event{x}, Violated, 0,
		},
		"an event that nobody made": {nil, []history.Event{x}, Violated, 0},
	} {
		t.Run(name, func(t *testing.T) {
			record := NewRecord("", tt.events, 10)
			finding := record.Check([Keys]string{"0", "1", "2"}, tt.operations, testTimeout)
			assert.Equal(t, tt.want, finding.Verdict, finding.Message)
			assert.Equal(t, tt.unseen, finding.Unseen)
			assert.NotContains(t, finding.Message, recorded.String())
			_, stray := record.Stray()
			assert.False(t, stray)
		})
	}
}
