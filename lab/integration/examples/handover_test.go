//go:build experiment

package examples_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestHandover measures how soon another process leads after the leader ends. One that ends after SIGTERM resigns: its lease
// would last for a minute.
func TestHandover(t *testing.T) {
	const rounds = 7
	r := newRig(t, "election")
	measure := func(signal syscall.Signal, ttl time.Duration) (longest time.Duration) {
		start := func() *process { return r.start("election", "--name", "it", "--term", "1h", "--ttl", ttl.String()) }
		var took []time.Duration
		leader := start()
		leader.says("it leads")
		for range rounds {
			next := start()
			time.Sleep(2 * time.Second) // it campaigns, and the leader's lease is renewed at some time
			began := time.Now()
			leader.signal(signal)
			next.says("it leads")
			took = append(took, time.Since(began))
			_ = leader.wait()
			leader = next
		}
		leader.signal(syscall.SIGTERM)
		leader.ends("it resigns")
		slices.Sort(took)
		t.Logf("%v: the next leads after %v in the median, %v at most", signal, took[rounds/2], took[rounds-1])
		return took[rounds-1]
	}
	measure(syscall.SIGKILL, 3*time.Second)
	assert.Less(t, measure(syscall.SIGTERM, time.Minute), time.Minute)
}
