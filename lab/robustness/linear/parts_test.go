package linear

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

func TestConnectFails(t *testing.T) {
	w := &workload{cfg: Config{Callers: 1, connect: func([]string) (Client, error) { return nil, errors.New("no way") }}}
	require.EqualError(t, w.Start(t.Context(), &robustness.Env{Cluster: &lab.Cluster{}}), "connect a client: no way")
}

func TestClaims(t *testing.T) {
	var c claims
	highest, missing := c.unclaimed()
	assert.Zero(t, highest)
	assert.Zero(t, missing)
	for _, revision := range []int64{0, 1, 2, 3, 3, 64, 200} {
		c.add(revision)
	}
	highest, missing = c.unclaimed()
	assert.EqualValues(t, 200, highest)
	assert.EqualValues(t, 195, missing)
	for revision, want := range map[int64]bool{-1: false, 0: false, 1: false, 2: true, 3: true, 4: false, 64: true, 65: false, 200: true, 201: false, 1 << 40: false} {
		assert.Equal(t, want, c.has(revision), revision)
	}
}

// reading answers every request as of an empty store.
type reading struct{ err error }

func (r reading) Do(_ context.Context, _ [model.Keys]string, request model.Request) (model.Response, error) {
	return model.Response{Revision: 9, Succeeded: true, Results: make([]model.Result, len(request.Then))}, r.err
}

func (reading) Close() error { return nil }

// newTestChecker returns a checker whose client answers as of an empty store, and the
// pool whose groups it checks.
func newTestChecker(t *testing.T, err error) (*checker, *pool) {
	log := robustness.NewLog(t.Output())
	p := newPool(log.Now, &robustness.Counts{})
	cfg := Config{Config: robustness.Config{Seed: 7}, checkTimeout: time.Minute, PageDir: t.TempDir()}
	return newChecker(cfg, reading{err}, p, log), p
}

func unknownPut(value string) model.Operation {
	return model.Operation{
		Request: model.Request{Kind: model.Put, Then: []model.Act{{Verb: model.Write, Value: value}}}, Outcome: model.Unknown,
	}
}

// TestEveryRevisionIsAccountedFor has writes at revisions 2 and 7, and so four between
// them to be accounted for.
func TestEveryRevisionIsAccountedFor(t *testing.T) {
	for n, want := range map[int]int{3: 1, 4: 0, 5: 0} {
		k, p := newTestChecker(t, nil)
		p.claims.add(2)
		p.claims.add(7)
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range n {
			g, _ := p.enter(rng)
			p.leave(g, unknownPut(string(rune('a'+i))))
		}
		p.close()
		k.run(t.Context(), p.retired)
		require.NoError(t, k.conclude())
		assert.Equal(t, want, k.verdict.Counts[Accounted], "%d unknown: %v", n, k.verdict)
		assert.Equal(t, want, k.verdict.Total())
		assert.Equal(t, livingGroups, p.counts.Of("groups", "checked"))
		assert.Equal(t, n, p.counts.Of("writes", unseen))
	}
}

func TestKeysThatCannotBeReadEndTheRun(t *testing.T) {
	k, p := newTestChecker(t, errors.New("no member"))
	p.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k.run(ctx, p.retired)
	require.ErrorContains(t, k.conclude(), "read the keys of group 2: no member")
	assert.Zero(t, p.counts.Of("groups", "checked"))
}

// TestViolationsAreKept has a value that was never written, and no place for its page.
func TestViolationsAreKept(t *testing.T) {
	k, p := newTestChecker(t, nil)
	file := filepath.Join(k.cfg.PageDir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{filepath.Join(k.cfg.PageDir, "new"), file} {
		k.cfg.PageDir = dir
		g, _ := p.enter(rand.New(rand.NewPCG(1, 1)))
		p.leave(g, model.Operation{
			Outcome: model.Answered, Request: model.Request{Kind: model.Get, Then: []model.Act{read(0)}},
			Response: model.Response{Revision: 5, Succeeded: true, Results: []model.Result{{
				KV: model.KV{Value: "x", CreateRevision: 5, ModRevision: 5, Version: 1},
			}}},
		})
		err := k.check(g)
		if dir == file {
			require.ErrorContains(t, err, "show a violation")
		} else {
			require.NoError(t, err)
			assert.FileExists(t, k.verdict.Violations[0].Page)
		}
	}
	assert.Equal(t, 2, k.verdict.Counts[Linearizable])
}

// TestUndecidedIsAViolation gives a check no time.
func TestUndecidedIsAViolation(t *testing.T) {
	k, p := newTestChecker(t, nil)
	k.cfg.checkTimeout = 1
	g, _ := p.enter(rand.New(rand.NewPCG(1, 1)))
	for i := range 40 {
		p.record(g, unknownPut(string(rune('A'+i))))
	}
	p.leave(g, model.Operation{
		Outcome: model.Answered, Request: model.Request{Kind: model.Get, Then: []model.Act{read(0)}},
		Response: model.Response{Revision: 800, Succeeded: true, Results: []model.Result{{
			KV: model.KV{Value: "A", CreateRevision: 5, ModRevision: 700, Version: 60},
		}}},
	})
	p.close()
	k.run(t.Context(), p.retired)
	require.NoError(t, k.conclude())
	assert.Positive(t, k.verdict.Counts[Decided], "%v", k.verdict)
	assert.Zero(t, k.verdict.Counts[Linearizable], "%v", k.verdict)
}

// TestGroupsGiveWay retires a group at the end of its time, and hands it over when
// nothing is under way any more.
func TestGroupsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := newPool(func() time.Duration { return time.Since(began) }, &robustness.Counts{})
		rng := rand.New(rand.NewPCG(1, 1))
		old, _ := p.enter(rng)
		time.Sleep(longestLife)
		for range 20 {
			g, _ := p.enter(rng)
			assert.NotSame(t, old, g)
			assert.GreaterOrEqual(t, g.number, livingGroups, "all groups are new")
			p.leave(g, unknownPut("x"))
		}
		assert.Len(t, p.retired, livingGroups-1, "one is still in use")
		p.leave(old, unknownPut("y"))
		assert.Len(t, p.retired, livingGroups)
		p.close()
		var numbers []int
		for g := range p.retired {
			numbers = append(numbers, g.number)
		}
		assert.ElementsMatch(t, []int{0, 1, 2, 3, 4, 5}, numbers, "each is handed over once")
		assert.Equal(t, 21, p.counts.Of("put", "unknown"))
	})
}

func TestGroupsAreDue(t *testing.T) {
	assert.False(t, (&group{}).due(longestLife-1))
	assert.True(t, (&group{}).due(longestLife))
	assert.True(t, (&group{operations: make([]model.Operation, mostOperations)}).due(0))
	assert.True(t, (&group{unknown: mostUnknown}).due(0))
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
	assert.Equal(t, kv, k[0].latest, "what is older is no news")
	answer(6, model.Act{Verb: model.Write, Value: "y"}, model.Result{})
	assert.Equal(t, model.KV{Value: "y", ModRevision: 6}, k[0].latest, "the version is not known")
	answer(7, model.Act{Verb: model.Write, Value: "z", Prev: true}, model.Result{KV: model.KV{Value: "y", ModRevision: 6, Version: 2}})
	assert.Equal(t, model.KV{Value: "z", ModRevision: 7, Version: 3}, k[0].latest)
	answer(8, model.Act{Verb: model.Remove}, model.Result{Deleted: 1})
	assert.Zero(t, k[0].latest)
	k.learn(unknownPut("w"))
	assert.Equal(t, "w", k[0].doubted)
	k.learn(model.Operation{Request: unknownPut("v").Request, Outcome: model.Failed})
	assert.Equal(t, "w", k[0].doubted, "what failed is not in doubt")
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
	knows[1].doubted = "y"
	seen := map[string]bool{}
	for range 2000 {
		request := p.request(knows)
		seen[string(request.Kind)] = true
		for _, c := range request.If {
			seen["compare "+string(c.Target)] = true
			seen["compares doubt"] = seen["compares doubt"] || c.Value == "y"
			seen["not equal"] = seen["not equal"] || c.NotEqual
		}
		written := map[int]bool{}
		for _, act := range request.Then {
			if act.Verb != model.Read {
				assert.False(t, written[act.Key], "etcd refuses to write a key twice: %v", request)
				written[act.Key] = true
			}
			seen["orphan"] = seen["orphan"] || act.Orphan
			seen["prev"] = seen["prev"] || act.Prev
		}
		seen["impatient"] = seen["impatient"] || p.timeout() < callTimeout
	}
	for _, want := range []string{
		"get", "serializable get", "snapshot", "put", "delete", "txn", "compare value", "compare version", "compare create revision", "compare mod revision",
		"compares doubt", "not equal", "orphan", "prev", "impatient",
	} {
		assert.True(t, seen[want], want)
	}
}

func TestIdempotentWritesOfUnknownOutcome(t *testing.T) {
	for early, want := range map[int]int{0: 0, 2: 1} {
		p := newPool(func() time.Duration { return 0 }, &robustness.Counts{})
		p.counts.Add("writes", unknownEarly, early)
		k := newChecker(Config{Idempotent: true}, nil, p, nil)
		require.NoError(t, k.conclude())
		assert.Equal(t, want, k.verdict.Total())
	}
}
