package robustness

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/robustness/history"
)

func event(key string, revision int64) history.Event {
	return history.Event{KeyValue: history.KeyValue{Key: key, ModRevision: revision}}
}

func TestRecorderTakesEachRevisionOnce(t *testing.T) {
	r := &Recorder{changed: make(chan struct{})}
	assert.Empty(t, r.through(1))
	next, err := r.take(2, []history.Event{event("a", 2), event("b", 2), event("a", 3)})
	require.NoError(t, err)
	assert.EqualValues(t, 4, next)
	next, err = r.take(2, []history.Event{event("a", 2), event("b", 2)}) // as another member tells it
	require.NoError(t, err)
	assert.EqualValues(t, 3, next)
	_, err = r.take(3, []history.Event{event("a", 3), event("c", 4)})
	require.NoError(t, err)
	assert.Equal(t, []history.Event{event("a", 2), event("b", 2), event("a", 3), event("c", 4)}, r.through(4))
	assert.Len(t, r.through(3), 3)
	assert.Empty(t, r.through(1))
	assert.EqualValues(t, 4, r.Revision())
}

func TestRecorderChecksItsInput(t *testing.T) {
	tests := []struct {
		name string
		next int64
		came []history.Event
		want string
	}{
		{"a gap", 4, []history.Event{event("a", 5)}, "its stream went from revision 3 to 5"},
		{"another key", 2, []history.Event{event("a", 2), event("x", 2)}, "it tells of revision 2 as"},
		{"half a revision", 2, []history.Event{event("a", 2)}, "it tells of revision 2 as"},
		{"another event at the end", 3, []history.Event{event("b", 3)}, "it tells of revision 3 as"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &Recorder{changed: make(chan struct{})}
			_, err := r.take(2, []history.Event{event("a", 2), event("b", 2), event("a", 3)})
			require.NoError(t, err)
			_, err = r.take(tt.next, tt.came)
			require.ErrorContains(t, err, tt.want)
			assert.ErrorAs(t, err, new(disagreement))
		})
	}
}

// TestRecorderCatchUpOutlastsARestart asks while no member serves.
func TestRecorderCatchUpOutlastsARestart(t *testing.T) {
	cluster := labtest.Start(t, lab.Config{Members: 1})
	r := startRecorder(cluster)
	defer r.stop()
	member := cluster.Members()[0]
	require.NoError(t, member.Kill())
	ended, end := context.WithTimeout(t.Context(), 3*reopenPause)
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

func TestRecorderAwait(t *testing.T) {
	r := &Recorder{changed: make(chan struct{})}
	at := func(revision int64) func() bool { return func() bool { return r.last() >= revision } }
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("too late"))
	require.EqualError(t, r.await(ended, at(2)), "too late")
	go func() { _, _ = r.take(2, []history.Event{event("a", 2)}) }()
	require.NoError(t, r.await(t.Context(), at(2)))
	go r.fail(errors.New("members disagree"))
	require.EqualError(t, r.await(t.Context(), at(3)), "members disagree")
}

func TestRecorderAwaitDeletion(t *testing.T) {
	gone := func(key string, revision int64) history.Event {
		e := event(key, revision)
		e.Type = history.DeleteEvent
		return e
	}
	r := &Recorder{changed: make(chan struct{})}
	_, err := r.take(2, []history.Event{event("a", 2), gone("a", 3), event("a", 4)})
	require.NoError(t, err)
	require.NoError(t, r.AwaitDeletion(t.Context(), "a", 2), "it was deleted already")
	awaited := make(chan error)
	go func() { awaited <- r.AwaitDeletion(t.Context(), "a", 4) }()
	_, err = r.take(5, []history.Event{gone("b", 5), event("a", 6), event("b", 7), gone("a", 7)})
	require.NoError(t, err)
	require.NoError(t, <-awaited)
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, r.AwaitDeletion(ended, "a", 7), context.Canceled)
}
