package watch

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// requested counts the answers to progress requests in received.
func requested(received []string) int {
	n := 0
	for _, s := range received {
		if strings.HasSuffix(s, "asked for") {
			n++
		}
	}
	return n
}

// asksUnanswered requests progress without an answer: a watch on the stream is behind, or starts in the future.
func (sc *script) asksUnanswered(times int) {
	for range times {
		sc.ss.requestProgress(false)
		sc.sends("progress?")
	}
}

func TestUnansweredRequestsAreNotRepeated(t *testing.T) {
	sc := connected(t)
	f := sc.follow(0)
	sc.receives(created(1, 1))
	sc.sends("create 1 from 0")
	sc.asksUnanswered(100)
	f.was()
	sc.ss.requestProgress(true)
	sc.sends("progress?")
	sc.receives(progressed(invalidID, 5))
	assert.Equal(t, []string{"progress 5, asked for"}, f.was())
	for rev := range int64(90) {
		sc.learns(6 + rev)
	}
	received := f.was()
	assert.Len(t, received, 90)
	assert.LessOrEqual(t, requested(received), 1, "at most one earlier answer may arrive first")
}

// A watch is created while many answers may be in flight. The session asks until it is sure; the other watches received
// the answer long before.
func TestDoubtIsSettledQuietly(t *testing.T) {
	sc := connected(t)
	first := sc.follow(0)
	sc.receives(created(1, 1))
	sc.sends("create 1 from 0")
	sc.asksUnanswered(200)
	second, third := sc.follow(3), sc.follow(3)
	sc.sends("create 2 from 3", "create 3 from 3")
	sc.receives(created(2, 9), created(3, 9))
	for _, f := range []*follower{first, second, third} {
		f.was()
	}
	sc.ss.requestProgress(true)
	rounds := 0
	for len(sc.ss.take()) > 0 {
		rounds++
		sc.receives(progressed(invalidID, 9))
	}
	assert.LessOrEqual(t, rounds, maxInFlight+1)
	assert.LessOrEqual(t, requested(first.was()), 2)
	for _, f := range []*follower{second, third} {
		assert.Equal(t, []string{"progress 9, asked for"}, f.was(), "the watch gets one answer that certainly holds for it")
		assert.EqualValues(t, 10, f.sub.next)
	}
	sc.learns(10)
	for _, f := range []*follower{first, second, third} {
		assert.Equal(t, []string{"progress 10"}, f.was())
	}
}

// Answers that no caller requested reach no caller, confirmed or not.
func TestDoubtThatConcernsNoCaller(t *testing.T) {
	sc := connected(t)
	first := sc.follow(0)
	sc.receives(created(1, 1))
	sc.sends("create 1 from 0")
	sc.asksUnanswered(3)
	second := sc.follow(3)
	sc.sends("create 2 from 3")
	sc.receives(created(2, 9))
	first.was()
	second.was()
	sc.receives(progressed(invalidID, 9))
	for len(sc.ss.take()) > 0 {
		sc.receives(progressed(invalidID, 9))
	}
	assert.Zero(t, requested(first.was()))
	assert.Equal(t, []string{"progress 9"}, second.was())
}

// The server ignored requests while a watch was behind. A response to a later watch proves that their answers will not
// come, so the next watch waits for none of them.
func TestIgnoredRequestsAreSettled(t *testing.T) {
	for name, shows := range map[string]func(sc *script){
		"an event":                       func(sc *script) { sc.receives(happened(2, 9)) },
		"progress":                       func(sc *script) { sc.receives(progressed(2, 9)) },
		"progress for all, which is new": func(sc *script) { sc.learns(10) },
	} {
		t.Run(name, func(t *testing.T) {
			sc := connected(t)
			sc.follow(0)
			sc.receives(created(1, 1))
			sc.sends("create 1 from 0")
			sc.asksUnanswered(200)
			second := sc.follow(3)
			sc.sends("create 2 from 3")
			sc.receives(happened(1, 9), created(2, 9))
			require.EqualValues(t, maxInFlight, second.sub.unconfirmed, "they may still be answered")
			shows(sc)
			assert.Zero(t, second.sub.unconfirmed)
			assert.Zero(t, sc.ss.progress.inFlight())

			third := sc.follow(3)
			sc.sends("create 3 from 3")
			sc.receives(created(3, 10))
			third.was()
			sc.learns(10)
			assert.Equal(t, []string{"progress 10"}, third.was(), "the first answer is accepted")
			sc.sends()
		})
	}
}

// Requests that were sent after the create of that later watch may still be answered.
func TestLaterRequestsAreNotSettled(t *testing.T) {
	sc := connected(t)
	sc.follow(0)
	sc.receives(created(1, 1))
	sc.sends("create 1 from 0")
	sc.asksUnanswered(50)
	sc.follow(3)
	sc.sends("create 2 from 3")
	sc.receives(created(2, 9))
	sc.asksUnanswered(3)
	sc.receives(happened(2, 9))
	assert.EqualValues(t, 3, sc.ss.progress.inFlight())
	third := sc.follow(3)
	sc.sends("create 3 from 3")
	sc.receives(created(3, 9))
	third.was()
	for range 3 {
		sc.receives(progressed(invalidID, 9))
		assert.Empty(t, third.was(), "the answer may precede the watch")
	}
	sc.receives(progressed(invalidID, 9))
	assert.Equal(t, []string{"progress 9"}, third.was())
}
