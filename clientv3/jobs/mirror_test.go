package jobs

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/store"
)

// put is a change of a job's state.
func put(id string, rev int64, state record) store.Change[[]byte] {
	return store.Change[[]byte]{Type: store.Put, Entry: store.Entry[[]byte]{
		Key: states + "/" + id, CreateRevision: rev, ModRevision: rev, Value: []byte(state.String()),
	}}
}

// Times with a monotonic reading and times of day have no common order when the time of day is set: the queue has only the latter.
// When their time has come, jobs are claimed in the order in which they were enqueued: new ones do not starve them.
func TestQueueIsOrderedByOneClock(t *testing.T) {
	m := newMirror(1, clienttest.Must(Config{Name: "q"}.complete()), nil)
	require.NoError(t, m.apply(put("lost", 1, record{Attempts: 1})))
	require.NoError(t, m.apply(put("waits", 2, record{NotBefore: time.Now().Add(time.Minute).UnixMilli()})))
	require.NoError(t, m.apply(put("held", 3, record{})))
	_, _ = m.next(time.Now().Add(claimDelay)) // takes it
	m.drop("held")
	require.Equal(t, 3, m.queue.Len())
	m.queue.Ascend(func(e *entry) bool {
		require.Equal(t, e.ready.Round(0), e.ready, e.id)
		return true
	})
	require.NoError(t, m.apply(put("new", 4, record{})))
	for _, want := range []string{"lost", "waits", "held", "new"} {
		e, _ := m.next(time.Now().Add(time.Hour))
		require.Equal(t, want, e.id)
	}
}

func TestBackoffOfCenturies(t *testing.T) {
	cfg := clienttest.Must(Config{Name: "q", MaxBackoff: math.MaxInt64}.complete())
	require.GreaterOrEqual(t, cfg.backoff(100), time.Duration(math.MaxInt64/2))
}

// A job whose state is from before the last claim is not claimed, unless the cluster was restored from a backup since.
func TestRelist(t *testing.T) {
	m := newMirror(1, clienttest.Must(Config{Name: "q"}.complete()), nil)
	require.NoError(t, m.apply(put("j", 1, record{})))
	m.settled(&Job{ID: "j", rev: 9})
	require.NoError(t, m.apply(put("j", 2, record{})))
	require.Zero(t, m.queue.Len())
	require.NoError(t, m.apply(store.Change[[]byte]{Type: store.Synced}))
	require.Equal(t, 1, m.queue.Len())
}
