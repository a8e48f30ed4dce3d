//go:build experiment

package failover_test

import (
	"context"
	"flag"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/observe"
)

var busyFor = flag.Duration("busy", 5*time.Second, "for how long TestABusyMachineEjectsNoMember keeps all cores busy")

// states counts how often an endpoint came into each state.
type states struct {
	observe.None
	mu    sync.Mutex
	times map[health.State]int
}

func (s *states) StateChanged(c health.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times[c.To]++
}

func (s *states) seen() map[health.State]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.times)
}

// A process that is short of CPU gets answers late. No member is at fault.
func TestABusyMachineEjectsNoMember(t *testing.T) {
	c := labtest.Start(t, lab.Config{})
	observer := &states{times: map[health.State]int{}}
	client := labtest.Client(t, clientv3.Config{Endpoints: c.Endpoints(), Observer: observer})
	get := func() {
		ctx, cancel := context.WithTimeout(t.Context(), labtest.Timeout)
		defer cancel()
		_, err := client.Get(ctx, "k")
		assert.NoError(t, err)
	}
	created := <-client.Watch(t.Context(), "k", clientv3.WithCreatedNotify())
	require.NoError(t, created.Err())
	calm := 0 // gets in a row, from which the client learns how long answers take
	require.Eventually(t, func() bool {
		get()
		calm++
		if slices.ContainsFunc(client.EndpointStatus(), func(s health.Status) bool { return s.State != health.Serving }) {
			calm = 0
		}
		return calm >= 100
	}, 2*labtest.Timeout, time.Millisecond) // a member that was slow is asked every 30 s at least

	before, connections := observer.seen(), accepted(c)
	ctx := grpctest.Within(t, *busyFor)
	var work sync.WaitGroup
	for range callers {
		work.Go(func() {
			for ctx.Err() == nil {
				get()
			}
		})
	}
	for range 2 * runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for ctx.Err() == nil {
				for x := range 1_000_000 {
					runtime.KeepAlive(x * x)
				}
			}
		})
	}
	work.Wait()
	after := observer.seen()
	t.Logf("states %v", after)
	assert.Equal(t, before[health.Dead], after[health.Dead])
	assert.Equal(t, before[health.Lagging], after[health.Lagging])
	assert.Equal(t, connections, accepted(c), "no connection was made anew")
}

// accepted returns how many connections each member was ever asked for by clients.
func accepted(c *lab.Cluster) []uint64 {
	var counts []uint64
	for _, m := range c.Members() {
		counts = append(counts, c.ClientLink(m).Stats().Accepted)
	}
	return counts
}
