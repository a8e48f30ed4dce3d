package watch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProgressRequestsWait(t *testing.T) {
	sc := connected(t)
	sc.follows(3)
	sc.ss.requestProgress(false) // not sent while one is in flight
	sc.ss.requestProgress(true)
	sc.sends("create 1 from 0")
	sc.receives(created(1, 10))
	sc.sends("create 2 from 0", "create 3 from 0", "progress?")
	sc.reconnect() // the answer is still outstanding
	sc.sends("create 4 from 11")
	sc.receives(created(4, 12))
	sc.sends("create 5 from 0", "create 6 from 0", "progress?")
	sc.receives(progressed(invalidID, 13))
	sc.reconnect()
	sc.sends("create 7 from 14")
	sc.receives(created(7, 14))
	sc.sends("create 8 from 0", "create 9 from 0")
}

// Each caller that asks gets an answer to a request made no earlier.
func TestProgressIsRequestedByManyCallers(t *testing.T) {
	sc := connected(t)
	f := sc.follow(5)
	sc.receives(created(1, 10))
	sc.sends("create 1 from 5")
	f.takeReceived()
	for range 4 {
		sc.ss.requestProgress(true)
		sc.sends("progress?")
	}
	for rev := int64(20); rev < 24; rev++ {
		sc.receives(progressed(invalidID, rev))
		assert.Equal(t, []string{fmt.Sprintf("progress %d, asked for", rev)}, f.takeReceived())
	}
}

// The server computed the answer before it created the watcher, and sent it after the confirmation.
func TestProgressFromBeforeTheWatch(t *testing.T) {
	for _, tc := range []struct {
		name     string
		asked    int // requests sent before the create
		later    int // requests sent after its confirmation
		receives []int64
		sends    []string
		received []string
		next     int64
	}{
		{"asked for afterwards", 0, 1, []int64{10}, nil, []string{"progress 10"}, 11},
		{"perhaps from before", 1, 0, []int64{10}, []string{"progress?"}, nil, 5},
		{"only the first one", 1, 0, []int64{10, 10}, []string{"progress?"}, []string{"progress 10"}, 11},
		{"another one in flight", 1, 1, []int64{10, 10}, []string{"progress?"}, []string{"progress 10"}, 11},
		{"newer than the watcher", 1, 0, []int64{11}, nil, []string{"progress 11"}, 12},
		{"two from before", 2, 0, []int64{9, 10}, []string{"progress?"}, nil, 5},
		{"two that are ignored, and one that is newer", 2, 1, []int64{11}, nil, []string{"progress 11"}, 12},
		{"from before the start", 1, 1, []int64{3, 10}, nil, []string{"progress 10"}, 11},
		{"up to the start", 1, 1, []int64{4, 10}, nil, []string{"progress 4", "progress 10"}, 11},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sc := connected(t)
			first := sc.follow(0)
			sc.receives(created(1, 2))
			sc.sends("create 1 from 0")
			ask := func(times int) {
				for range times {
					sc.ss.requestProgress(false)
					sc.sends("progress?")
				}
			}
			ask(tc.asked)
			f := sc.follow(5)
			sc.sends("create 2 from 5")
			sc.receives(created(2, 10))
			ask(tc.later)
			f.takeReceived()
			for _, rev := range tc.receives {
				sc.receives(progressed(invalidID, rev))
			}
			sc.sends(tc.sends...)
			assert.Equal(t, tc.received, f.takeReceived())
			assert.Equal(t, tc.next, f.sub.next)
			assert.Len(t, first.takeReceived(), 1+len(tc.receives), "the first watch receives all answers")
		})
	}
}

// Whether an answer holds for a watch is decided by counting requests, so an unsolicited answer holds for none.
func TestUnsolicitedAnswerIsIgnored(t *testing.T) {
	for _, tc := range []struct {
		name     string
		arrives  func(*script)
		received []string
		next     int64
	}{
		{"never asked", func(sc *script) { sc.receives(progressed(invalidID, 20)) }, nil, 5},
		{"duplicated", func(sc *script) { sc.answersProgress(20); sc.receives(progressed(invalidID, 30)) }, []string{"progress 20"}, 21},
		{"asked for and duplicated", func(sc *script) {
			sc.ss.requestProgress(true)
			sc.ss.take()
			sc.receives(progressed(invalidID, 20), progressed(invalidID, 30))
		}, []string{"progress 20, asked for"}, 21},
		{"asked on another stream", func(sc *script) {
			sc.ss.requestProgress(false)
			sc.reconnect()
			sc.receives(created(2, 10), progressed(invalidID, 20))
		}, []string{"created"}, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sc := connected(t)
			f := sc.follow(5)
			sc.receives(created(1, 10))
			f.takeReceived()
			tc.arrives(sc)
			assert.Equal(t, tc.received, f.takeReceived())
			assert.Equal(t, tc.next, f.sub.next)
			f.takeReceived()
			sc.answersProgress(40)
			assert.Equal(t, []string{"progress 40"}, f.takeReceived(), "the next answer is accepted")
		})
	}
}

// The server answers on a stream without watchers. Its progress moves no resume point, and only callers who asked
// receive it.
func TestServerThatAnswersTooEarly(t *testing.T) {
	sc := connected(t)
	f := sc.follow(5)
	sc.receives(progressed(invalidID, 9), created(1, 10))
	sc.sends("create 1 from 5")
	assert.False(t, sc.ss.splittable())
	sc.ss.requestProgress(false)
	sc.sends("progress?")
	sc.receives(progressed(invalidID, 11))
	sc.ss.requestProgress(true)
	sc.sends("progress?")
	sc.receives(progressed(invalidID, 12), happened(1, 7))
	assert.Equal(t, []string{"created", "progress 12, asked for", "events [7]"}, f.takeReceived())
	sc.receives(progressed(1, 15))
	assert.EqualValues(t, 16, f.sub.next, "progress for one watch follows its events")
	sc.reconnect()
	sc.receives(created(2, 20))
	sc.answersProgress(20)
	assert.EqualValues(t, 21, f.sub.next, "progress of another server counts")
	assert.True(t, sc.ss.splittable())
}

func TestInFlightIsBounded(t *testing.T) {
	for sent, want := range map[int]uint8{0: 0, 1: 1, 128: 128, 129: 129, 130: 129, 256: 129, 1 << 40: 129} {
		p := progressCounts{sent: sent}
		assert.Equal(t, want, p.inFlight(), "%d sent", sent)
	}
}

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

// A watch is created while many answers may be in flight. The session asks until it is sure; the other watches received
// the answer long before.
func TestProgressIsRequestedUntilAnAnswerHolds(t *testing.T) {
	sc := connected(t)
	first := sc.follow(0)
	sc.receives(created(1, 1))
	sc.sends("create 1 from 0")
	sc.asksUnanswered(200)
	second, third := sc.follow(3), sc.follow(3)
	sc.sends("create 2 from 3", "create 3 from 3")
	sc.receives(created(2, 9), created(3, 9))
	for _, f := range []*follower{first, second, third} {
		f.takeReceived()
	}
	sc.ss.requestProgress(true)
	rounds := 0
	for len(sc.ss.take()) > 0 {
		rounds++
		sc.receives(progressed(invalidID, 9))
	}
	assert.LessOrEqual(t, rounds, maxInFlight+1)
	assert.LessOrEqual(t, requested(first.takeReceived()), 2)
	for _, f := range []*follower{second, third} {
		assert.Equal(t, []string{"progress 9, asked for"}, f.takeReceived(), "the watch gets one answer that certainly holds for it")
		assert.EqualValues(t, 10, f.sub.next)
	}
	sc.answersProgress(10)
	for _, f := range []*follower{first, second, third} {
		assert.Equal(t, []string{"progress 10"}, f.takeReceived())
	}
}

// The server ignored requests while a watch was behind. A response to a later watch proves that their answers will not
// come, so the next watch waits for none of them.
func TestIgnoredProgressRequestsAreNotAwaited(t *testing.T) {
	for name, shows := range map[string]func(sc *script){
		"an event":                       func(sc *script) { sc.receives(happened(2, 9)) },
		"progress":                       func(sc *script) { sc.receives(progressed(2, 9)) },
		"progress for all, which is new": func(sc *script) { sc.answersProgress(10) },
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
			third.takeReceived()
			sc.answersProgress(10)
			assert.Equal(t, []string{"progress 10"}, third.takeReceived(), "the first answer is accepted")
			sc.sends()
		})
	}
}

// Progress that is newer than many watches settles the requests before the latest of them, whichever is looked at last.
func TestTheLatestWatchTellsWhichRequestsWereIgnored(t *testing.T) {
	sc := connected(t)
	sc.follow(0)
	sc.receives(created(1, 1))
	sc.sends("create 1 from 0")
	for i := range int64(30) {
		sc.asksUnanswered(1)
		sc.follow(3)
		sc.receives(created(i+2, 9))
		sc.ss.take()
	}
	sc.answersProgress(10)
	assert.Equal(t, 30, sc.ss.progress.past)
}
