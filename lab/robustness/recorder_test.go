package robustness

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/robustness/history"
)

func event(key string, revision int64) history.Event {
	return history.Event{KeyValue: history.KeyValue{Key: key, ModRevision: revision}}
}

// newRecorder returns a recorder of no cluster, whose clock goes on by a second with each revision.
func newRecorder() *Recorder {
	var now time.Duration
	return &Recorder{now: func() time.Duration { now += time.Second; return now }}
}

func TestRecorderTakesEachRevisionOnce(t *testing.T) {
	r := newRecorder()
	assert.Empty(t, r.throughLocked(1))
	assert.EqualValues(t, 4, r.take(2, []history.Event{event("a", 2), event("b", 2), event("a", 3)}))
	assert.EqualValues(t, 3, r.take(2, []history.Event{event("a", 2), event("b", 2)})) // as another member delivers it
	r.take(3, []history.Event{event("a", 3), event("c", 4)})
	assert.Equal(t, []history.Event{event("a", 2), event("b", 2), event("a", 3), event("c", 4)}, r.throughLocked(4))
	assert.Len(t, r.throughLocked(3), 3)
	assert.Empty(t, r.throughLocked(1))
	assert.EqualValues(t, 4, r.Revision())
	assert.Equal(t, 2*time.Second, r.At(3), "when it came first")
}

func TestRecorderChecksItsInput(t *testing.T) {
	tests := []struct {
		name string
		next int64
		came []history.Event
		want string
	}{
		{"a gap", 4, []history.Event{event("a", 5)}, "its stream went from revision 3 to 5"},
		{"another key", 2, []history.Event{event("a", 2), event("x", 2)}, "it delivered revision 2 as"},
		{"half a revision", 2, []history.Event{event("a", 2)}, "it delivered revision 2 as"},
		{"another event at the end", 3, []history.Event{event("b", 3)}, "it delivered revision 3 as"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder()
			r.take(2, []history.Event{event("a", 2), event("b", 2), event("a", 3)})
			err := fatal.Catch(func() { r.take(tt.next, tt.came) })
			require.ErrorContains(t, err, tt.want)
			assert.ErrorAs(t, err, new(disagreement))
		})
	}
}

// TestRecorderCatchUpOutlastsARestart asks while no member serves.
func TestRecorderCatchUpOutlastsARestart(t *testing.T) {
	cluster := labtest.Start(t, lab.Config{Members: 1})
	r := startRecorder(cluster, func() time.Duration { return 0 })
	defer r.stop()
	member := cluster.Members()[0]
	require.NoError(t, member.Kill())
	ended, end := context.WithTimeout(t.Context(), 3*retryPause)
	defer end()
	_, _, err := r.catchUp(ended)
	require.ErrorContains(t, err, "for its revision")
	caughtUp := make(chan error, 1)
	go func() {
		_, _, err := r.catchUp(t.Context())
		caughtUp <- err
	}()
	require.NoError(t, member.Restart(t.Context()))
	require.NoError(t, <-caughtUp)
}
