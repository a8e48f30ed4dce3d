package model

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// simulation is a store that executes one operation after the other, and clients that
// call it. It shares no code with the model.
type simulation struct {
	rng      *rand.Rand
	revision int64
	keys     map[int]KV
	values   int
	history  []Operation
}

// simulate returns a history of n operations, of which some are of unknown outcome.
// Operations take effect one at each tick of the clock, and overlap around that.
func simulate(seed uint64, n int) []Operation {
	s := &simulation{rng: rand.New(rand.NewPCG(seed, 1)), revision: 4, keys: map[int]KV{}}
	late := map[int][]Operation{} // unknown writes by when they take effect
	for tick := range n {
		for _, op := range late[tick] {
			s.execute(op.Request)
		}
		op := Operation{
			Client: tick % 8, Outcome: Answered, Request: s.request(), Call: s.moment(tick) - s.spread(), Return: s.moment(tick) + s.spread(),
		}
		op.Call = max(op.Call, 0)
		switch effect := s.rng.IntN(40); {
		case effect > 6 || !op.Request.Kind.Writes():
			op.Response = s.execute(op.Request)
		case effect > 4:
			op.Outcome = Failed
		case effect > 2:
			op.Outcome = Unknown // and never takes effect
		default:
			op.Outcome = Unknown
			at := tick + 1 + s.rng.IntN(50)
			late[at] = append(late[at], op)
		}
		s.history = append(s.history, op)
	}
	return s.history
}

func (s *simulation) moment(tick int) time.Duration { return time.Duration(tick) * 100 }

// spread is how far the call and the return of an operation are from its effect.
func (s *simulation) spread() time.Duration { return time.Duration(s.rng.IntN(400)) }

func (s *simulation) request() Request {
	key, other := s.rng.IntN(Keys), s.rng.IntN(Keys)
	switch s.rng.IntN(6) {
	case 0:
		return Request{Kind: Get, Then: []Act{{Verb: Read, Key: key}}}
	case 1:
		return Request{Kind: Snapshot, Then: []Act{{Verb: Read, Key: 0}, {Verb: Read, Key: 1}, {Verb: Read, Key: 2}}}
	case 2:
		return Request{Kind: Delete, Then: []Act{{Verb: Remove, Key: key, Prev: s.rng.IntN(2) == 0}}}
	case 3, 4:
		return Request{Kind: Put, Then: []Act{s.put(key)}}
	default:
		return Request{
			Kind: Txn, If: []Compare{{Key: key, Target: ModRevision, Number: s.keys[key].ModRevision}},
			Then: []Act{{Verb: Read, Key: key}, s.put(key)}, Else: []Act{s.put(other)},
		}
	}
}

func (s *simulation) put(key int) Act {
	s.values++
	return Act{Verb: Write, Key: key, Value: fmt.Sprint("v", s.values), Prev: s.rng.IntN(2) == 0}
}

func (s *simulation) execute(r Request) Response {
	out := Response{Succeeded: true}
	for _, c := range r.If {
		out.Succeeded = out.Succeeded && s.keys[c.Key].ModRevision == c.Number
	}
	acts := r.Then
	if !out.Succeeded {
		acts = r.Else
	}
	wrote := false
	for _, act := range acts {
		was := s.keys[act.Key]
		var result Result
		if act.Prev || act.Verb == Read {
			result.KV = was
		}
		switch {
		case act.Verb == Write:
			created := was.CreateRevision
			if was.Version == 0 {
				created = s.revision + 1
			}
			s.keys[act.Key] = KV{act.Value, created, s.revision + 1, was.Version + 1}
			wrote = true
		case act.Verb == Remove && was.Version > 0:
			delete(s.keys, act.Key)
			result.Deleted, wrote = 1, true
		}
		out.Results = append(out.Results, result)
	}
	if wrote {
		s.revision++
	}
	out.Revision = s.revision
	return out
}

// TestSimulatedHistories holds the model to accept what a store does, and to find
// out what becomes of it when one answer is changed.
func TestSimulatedHistories(t *testing.T) {
	const histories, operations = 40, 300
	changed, unseen := 0, 0
	for seed := range uint64(histories) {
		history := simulate(seed, operations)
		finding := Check(History{Operations: history}, patience)
		require.Equal(t, Linearizable, finding.Verdict, "seed %d: %s", seed, finding.Message)
		unseen += finding.Unseen

		rng := rand.New(rand.NewPCG(seed, 2))
		if !falsify(history, rng) {
			continue
		}
		changed++
		finding = Check(History{Operations: history}, patience)
		assert.Equal(t, Violated, finding.Verdict, "seed %d", seed)
	}
	assert.Greater(t, changed, histories/2)
	assert.Greater(t, unseen, histories, "hardly any unknown outcome remained one")
}

// falsify changes one answer of a history, so that it cannot be true, or makes a failure
// of a write that was seen.
func falsify(history []Operation, rng *rand.Rand) bool {
	written := map[string]*Operation{}
	for i := range history {
		op := &history[i]
		for _, act := range op.Request.branch(op.Response.Succeeded) {
			if act.Verb == Write && op.Outcome == Answered {
				written[act.Value] = op
			}
		}
	}
	for _, i := range rng.Perm(len(history)) {
		op := &history[i]
		if op.Request.Kind != Get && op.Request.Kind != Snapshot {
			continue
		}
		seen := &op.Response.Results[0].KV
		writer := written[seen.Value]
		if writer == nil {
			continue
		}
		switch rng.IntN(4) {
		case 0:
			seen.ModRevision-- // written at another moment
		case 1:
			seen.Version++ // written twice
		case 2:
			seen.Value = "nothing" // never written
		default:
			writer.Outcome, writer.Response = Failed, Response{}
		}
		return true
	}
	return false
}
