package watch

import (
	"math/rand/v2"
	"testing"
)

// maxInput bounds a fuzzer's input: longer ones find nothing more.
const maxInput = 4096

// FuzzSession runs a session against a model of etcd while keys are written and compacted, streams break, and callers
// come and go.
func FuzzSession(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) { simulate(t, data) })
}

func simulate(t *testing.T, data []byte) {
	if len(data) > maxInput {
		return
	}
	sm := newSimulation(t, data)
	for sm.in.more() {
		sm.step()
	}
	sm.settle()
	sm.checkAllDelivered()
}

func TestSessionAtRandom(t *testing.T) {
	for seed := range uint64(300) {
		simulate(t, randomBytes(seed, 600))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func randomBytes(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return data
}
