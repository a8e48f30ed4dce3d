//go:build experiment

package failover_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab"
)

// election is the wait for a leader that is not the old one. When a member reports one,
// callers begin who try until they succeed: those of the traffic may be waiting then for
// the end of calls that went to the old leader.
type election struct {
	tr     *traffic
	cancel context.CancelFunc
	asking sync.WaitGroup
	once   sync.Once
	begun  chan struct{}

	reported   time.Time // once begun
	newCallers sync.WaitGroup
	mu         sync.Mutex
	resumed    time.Time // when the last of the new callers had succeeded
}

// awaitElection asks the members, but for the old leader, all the time who leads. With no
// old leader it asks all.
func awaitElection(t *testing.T, c *lab.Cluster, tr *traffic, old *lab.Member) *election {
	e := &election{tr: tr, begun: make(chan struct{})}
	var ctx context.Context
	ctx, e.cancel = context.WithCancel(context.Background())
	for _, m := range c.Members() {
		if m != old {
			e.asking.Go(func() { e.ask(ctx, m, old) })
		}
	}
	t.Cleanup(e.end)
	return e
}

func (e *election) end() {
	e.cancel()
	e.asking.Wait()
}

func (e *election) ask(ctx context.Context, m, old *lab.Member) {
	for ctx.Err() == nil {
		status, err := m.Status(ctx)
		if err == nil && status.Leader != 0 && (old == nil || status.Leader != old.ID()) {
			e.once.Do(e.begin)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}

func (e *election) begin() {
	e.reported = time.Now()
	for i := range callers {
		e.newCallers.Go(func() { e.tr.repeat(func(int) bool { return !e.note(e.tr.get()) }) })
		e.newCallers.Go(func() {
			e.tr.repeat(func(n int) bool {
				return !e.note(e.tr.put(fmt.Sprintf("%s%d/%d/%d", e.tr.prefix, e.reported.UnixNano(), i, n)))
			})
		})
	}
	close(e.begun)
}

// note records how a new caller's call ended, and returns it.
func (e *election) note(ok bool) bool {
	if ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.resumed = time.Now()
	}
	return ok
}

// result returns when the new leader was reported, and when all new callers had succeeded.
func (e *election) result(t *testing.T) (reported, resumed time.Time) {
	t.Helper()
	select {
	case <-e.begun:
	case <-time.After(patience):
		require.Fail(t, "no new leader was reported")
	}
	e.newCallers.Wait()
	e.end()
	return e.reported, e.resumed
}
