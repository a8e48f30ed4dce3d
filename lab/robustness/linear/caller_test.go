package linear

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

func TestMain(m *testing.M) { labtest.Verify(m) }

func TestConnectFails(t *testing.T) {
	cfg := Config{callers: 1, connect: func([]string) (Client, error) { return nil, errors.New("no way") }}
	err := fatal.Catch(func() { cfg.workload(t.Context(), &robustness.Env{Cluster: &lab.Cluster{}}) })
	require.EqualError(t, err, "connect a client: no way")
}

func unknownPut(value string) model.Operation {
	return model.Operation{
		Request: model.Request{Kind: model.Put, Then: []model.Act{{Verb: model.Write, Value: value}}}, Outcome: model.Unknown,
	}
}

// checked has some operations made on one group of an empty store, and checks them.
func checked(cfg Config, early int, operations ...model.Operation) robustness.Outcome {
	p := newPool(func() time.Duration { return 0 }, &robustness.Counts{})
	keys, _ := p.enter(rand.New(rand.NewPCG(1, 1)))
	for _, op := range operations {
		p.leave(keys, op)
	}
	p.counts.Add("writes", unknownEarly, early)
	out := robustness.Outcome{Counts: p.counts}
	cfg.check(p.operations, model.NewRecord(keyPrefix, nil, 9), &out)
	return out
}

// TestViolationsAreKept has a value that was never written.
func TestViolationsAreKept(t *testing.T) {
	found := model.Operation{
		Outcome: model.Answered, Request: model.Request{Kind: model.Get, Then: []model.Act{read(0)}},
		Response: model.Response{Revision: 5, Succeeded: true, Results: []model.Result{{
			KV: model.KV{Value: "x", CreateRevision: 5, ModRevision: 5, Version: 1},
		}}},
	}
	out := checked(Config{}, 0, unknownPut("y"), found)
	require.Equal(t, 1, out.Verdict.Counts[model.Linear])
	assert.Equal(t, 1, out.Counts.Of("groups", "checked"))
	assert.Equal(t, 1, out.Counts.Of("writes", "unknown and never seen"))
}

func TestEventsOfKeysWithoutOperations(t *testing.T) {
	out := robustness.Outcome{Counts: &robustness.Counts{}}
	events := []history.Event{{KeyValue: history.KeyValue{Key: keyPrefix + "9/0", ModRevision: 2}}, {KeyValue: history.KeyValue{Key: "/else", ModRevision: 3}}}
	Config{}.check(nil, model.NewRecord(keyPrefix, events, 9), &out)
	require.Len(t, out.Verdict.Violations, 1)
	assert.Equal(t, "put /linear/9/0 at revision 2: no operation is on that key", out.Verdict.Violations[0].Message)
}

func TestIdempotentWritesOfUnknownOutcome(t *testing.T) {
	for early, want := range map[int]int{0: 0, 2: 1} {
		out := checked(Config{Idempotent: true}, early)
		assert.Equal(t, want, out.Verdict.Counts[Known])
	}
}

// TestGroupsAreReplaced has groups reach the end of their life while an operation is under way.
func TestGroupsAreReplaced(t *testing.T) {
	var now time.Duration
	p := newPool(func() time.Duration { return now }, &robustness.Counts{})
	rng := rand.New(rand.NewPCG(1, 1))
	old, _ := p.enter(rng)
	p.leave(old, unknownPut("x"))
	now = groupLife
	for range 20 {
		keys, knows := p.enter(rng)
		assert.NotEqual(t, old, keys)
		assert.NotEqual(t, p.known[old], knows)
	}
	p.leave(old, unknownPut("y"))
	assert.Len(t, p.operations[old], 2)
	assert.Equal(t, "y", p.known[old][0].unknownValue)
	assert.Equal(t, 2, p.counts.Of("put", "unknown"))
}

func TestKnowledge(t *testing.T) {
	var k known
	kv := model.KV{Value: "x", CreateRevision: 5, ModRevision: 5, Version: 1}
	answer := func(revision int64, act model.Act, result model.Result) {
		k.learn(model.Operation{
			Outcome: model.Answered, Request: model.Request{Then: []model.Act{act}},
			Response: model.Response{Revision: revision, Succeeded: true, Results: []model.Result{result}},
		})
	}
	answer(5, read(0), model.Result{KV: kv})
	assert.Equal(t, kv, k[0].latest)
	answer(4, read(0), model.Result{})
	assert.Equal(t, kv, k[0].latest, "an older answer shows nothing new")
	answer(6, model.Act{Verb: model.Write, Value: "y"}, model.Result{})
	assert.Equal(t, model.KV{Value: "y", ModRevision: 6}, k[0].latest, "the version is not known")
	answer(7, model.Act{Verb: model.Write, Value: "z", Prev: true}, model.Result{KV: model.KV{Value: "y", ModRevision: 6, Version: 2}})
	assert.Equal(t, model.KV{Value: "z", ModRevision: 7, Version: 3}, k[0].latest)
	answer(8, model.Act{Verb: model.Remove}, model.Result{Deleted: 1})
	assert.Zero(t, k[0].latest)
	k.learn(unknownPut("w"))
	assert.Equal(t, "w", k[0].unknownValue)
	k.learn(model.Operation{Request: unknownPut("v").Request, Outcome: model.Failed})
	assert.Equal(t, "w", k[0].unknownValue, "what failed is not in doubt")
}

func TestPlansCoverEverything(t *testing.T) {
	values := map[string]bool{}
	p := planner{rand.New(rand.NewPCG(1, 1)), func() string {
		value := string(rune('a' + len(values)))
		values[value] = true
		return value
	}}
	var knows known
	knows[1].latest = model.KV{Value: "x", ModRevision: 5, Version: 1}
	knows[1].unknownValue = "y"
	seen := map[string]bool{}
	for range 2000 {
		request := p.request(knows)
		seen[string(request.Kind)] = true
		for _, c := range request.If {
			seen["compare "+string(c.Target)] = true
			seen["compares an unknown value"] = seen["compares an unknown value"] || c.Value == "y"
			seen["not equal"] = seen["not equal"] || c.NotEqual
		}
		written := map[int]bool{}
		for _, act := range request.Then {
			if act.Verb != model.Read {
				assert.False(t, written[act.Key], "etcd refuses to write a key twice: %v", request)
				written[act.Key] = true
			}
			seen["missing lease"] = seen["missing lease"] || act.MissingLease
			seen["prev"] = seen["prev"] || act.Prev
		}
		seen["short timeout"] = seen["short timeout"] || p.timeout() < callTimeout
	}
	for _, want := range []string{
		"get", "serializable get", "snapshot", "put", "delete", "txn", "compare value", "compare version", "compare create revision", "compare mod revision",
		"compares an unknown value", "not equal", "missing lease", "prev", "short timeout",
	} {
		assert.True(t, seen[want], want)
	}
}
