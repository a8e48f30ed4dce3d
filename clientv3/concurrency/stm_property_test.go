package concurrency_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "github.com/quorate/quorate/clientv3/concurrency"
)

// committed is what one transaction read and wrote.
type committed struct {
	rev    int64
	wrote  bool // whether it made a revision
	reads  map[string]string
	writes map[string]string // "" for a delete
}

// randomTransaction reads and writes random keys of a small set.
func randomTransaction(t *testing.T, f fake, rnd *rand.Rand, name string, level STMOption) committed {
	var c committed
	key := func() string { return "k" + strconv.Itoa(rnd.IntN(5)) }
	steps := 1 + rnd.IntN(6)
	seed := rnd.Uint64()
	var options []STMOption
	if rnd.IntN(3) == 0 {
		options = append(options, WithPrefetch(key(), key()))
	}
	resp, err := NewSTM(f.client, func(s STM) error {
		c = committed{reads: map[string]string{}, writes: map[string]string{}}
		rnd := rand.New(rand.NewPCG(seed, 1)) // the same choices in each run
		for step := range steps {
			key := "k" + strconv.Itoa(rnd.IntN(5))
			switch op := rnd.IntN(8); {
			case op < 4:
				value := s.Get(key)
				if own, ok := c.writes[key]; ok {
					assert.Equal(t, own, value, "a read returns the own write")
				} else if before, ok := c.reads[key]; ok {
					assert.Equal(t, before, value, "a repeated read returns the same value")
				} else {
					c.reads[key] = value
				}
			case op < 7:
				c.writes[key] = fmt.Sprint(name, ".", step)
				s.Put(key, c.writes[key])
			default:
				c.writes[key] = ""
				s.Del(key)
			}
		}
		return nil
	}, append(options, level)...)
	assert.NoError(t, err)
	c.rev = resp.Header.Revision
	for _, r := range resp.Responses {
		c.wrote = c.wrote || r.GetResponsePut() != nil || r.GetResponseDeleteRange().GetDeleted() > 0
	}
	return c
}

// TestSTMIsSerializable runs random transactions concurrently, and then replays them in the order of their revisions on
// a map: each must have read the values of the map, and the final states must be equal.
func TestSTMIsSerializable(t *testing.T) {
	const workers, transactions = 5, 40
	onLevels(t, conflictFree, func(t *testing.T, f fake, level STMOption) {
		history := make([][]committed, workers)
		var running sync.WaitGroup
		for w := range workers {
			running.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(w), 2))
				for i := range transactions {
					name := fmt.Sprint(w, ".", i)
					history[w] = append(history[w], randomTransaction(t, f, rnd, name, level))
				}
			})
		}
		running.Wait()

		order := slices.Concat(history...)
		slices.SortFunc(order, func(a, b committed) int {
			switch {
			case a.rev != b.rev || a.wrote == b.wrote:
				return cmp.Compare(a.rev, b.rev)
			case a.wrote:
				return -1 // the other one read the state after it
			default:
				return 1
			}
		})
		state := map[string]string{}
		var checked int
		for i, c := range order {
			for key, value := range c.reads {
				require.Equal(t, state[key], value, "transaction %d of revision %d: %s", i, c.rev, key)
				checked++
			}
			for key, value := range c.writes {
				state[key] = value
			}
		}
		require.Greater(t, checked, workers*transactions/2)
		for key, value := range state {
			require.Equal(t, value, string(f.Get(key).GetValue()), key)
		}
	})
}
