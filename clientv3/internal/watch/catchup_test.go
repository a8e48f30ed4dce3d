package watch

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// FuzzCatchup splits a watch. The servers of its parts have any speed, and compact at any time.
func FuzzCatchup(f *testing.F) {
	addRandom(f, 300, 1000)
	f.Fuzz(runCatchup)
}

func runCatchup(t *testing.T, data []byte) {
	if len(data) > maxInput {
		return
	}
	sw := newSplitWatch(t, data)
	sw.split()
	for sw.in.more() && !sw.ended {
		sw.step()
	}
	sw.finish()
}

// inParts returns a watch of "a" that is split into parts of 10 revisions with one event each.
func inParts(t *testing.T, head, parts, budget int) *splitWatch {
	sw := newSplitWatch(t, nil)
	sw.hist = newHistory()
	for sw.hist.rev() < int64(head) {
		sw.hist.write("a")
	}
	sw.next = 2
	sw.opened = nil
	sw.sub = sw.open(2)
	sw.c = newCatchup(plan{head: int64(head), step: 10, parts: parts, budget: budget}, sw.sub, sw)
	return sw
}

func (sw *splitWatch) openedAt() []int64 {
	var starts []int64
	for _, s := range sw.opened {
		starts = append(starts, sw.starts[s])
	}
	return starts
}

func TestCompactedPartEndsTheWatchInOrder(t *testing.T) {
	sw := inParts(t, 60, 3, 1<<20)
	first := sw.opened[0]
	sw.deliver(first, 9) // its server is at revision 11
	sw.hist.compacted = 15
	sw.deliver(sw.opened[1], 1000)
	assert.False(t, sw.ended)
	sw.hist.compacted = 0 // the first part's server had already sent the rest
	sw.deliver(first, 1000)
	assert.True(t, sw.ended)
	assert.EqualValues(t, 12, sw.next, "everything before the compaction is delivered")
}

// A part that was dropped for lack of room is opened again when there is room, not at once.
func TestDroppedPartWaitsForRoom(t *testing.T) {
	sw := inParts(t, 60, 3, 15*eventOverhead)
	sw.deliver(sw.opened[1], 1000)
	for range 20 {
		if last := sw.opened[len(sw.opened)-1]; sw.starts[last] == 22 {
			sw.deliver(last, 1000)
		}
	}
	assert.LessOrEqual(t, len(sw.starts), 4, "number of opened subscriptions")
	sw.finish()
	assert.EqualValues(t, 61, sw.next)
}

// The first part delivers nothing while the second one, the last, follows new revisions without end.
func TestSilentPartBoundsHeldBytes(t *testing.T) {
	const budget = 20 * eventOverhead
	sw := inParts(t, 19, 2, budget)
	require.Equal(t, []int64{2, 12}, sw.openedAt())
	tail := sw.opened[1]
	for range 100 {
		sw.hist.write("a")
		sw.deliver(tail, 1)
		require.LessOrEqual(t, sw.c.held, budget)
	}
	assert.Equal(t, []int64{2}, sw.openedAt(), "only the current part stays open")
	for range maxQuiet {
		require.False(t, sw.c.tick())
	}
	assert.True(t, sw.c.tick(), "a response for a dropped part does not count")
	sw.finish()
	assert.Equal(t, sw.hist.rev()+1, sw.next)
}

// A response for any part shows that the server answers.
func TestCatchupTick(t *testing.T) {
	sw := inParts(t, 60, 3, 1<<20)
	quiet := func(why string) {
		for n := range maxQuiet {
			require.False(t, sw.c.tick(), "%d ticks after %s", n+1, why)
		}
	}
	quiet("the split")
	sw.deliver(sw.opened[1], 1)
	quiet("an event")
	sw.hist.events[2] = nil // a revision of another key
	sw.progress(sw.opened[0], 2)
	quiet("progress")
	assert.True(t, sw.c.tick())
}

// spaced returns a batch of revisions at a distance, with each events per revision.
func spaced(from int64, revisions int, distance int64, each, bytes int) []*mvccpb.Event {
	var events []*mvccpb.Event
	for i := range int64(revisions) {
		for range each {
			events = append(events, &mvccpb.Event{Kv: &mvccpb.KeyValue{ModRevision: from + i*distance, Value: make([]byte, bytes)}})
		}
	}
	return events
}

func TestPlanCatchup(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		name   string
		head   int64
		events []*mvccpb.Event
		budget int
		want   plan // zero if not split
	}{
		{"a new event", 100_000, spaced(100_000, 1, 1, 1, 0), 16 * mib, plan{}},
		{"small batch: the last one", 100_000, spaced(1, 999, 50, 1, 0), 16 * mib, plan{}},
		{"many events of few revisions", 100_000, spaced(1, 400, 1, 10, 0), 16 * mib, plan{}},
		{"all sent", 1000, spaced(1, 1000, 1, 1, 0), 16 * mib, plan{}},
		{"not far behind", 1000 + minSplitBacklog - 1, spaced(1, 1000, 1, 1, 0), 16 * mib, plan{}},
		{"far behind only in revisions of other keys", 14_000, spaced(1, 1000, 10, 1, 0), 16 * mib, plan{}},
		{"far behind", 1000 + minSplitBacklog, spaced(1, 1000, 1, 1, 0), 16 * mib, plan{1000 + minSplitBacklog, 1000, 5, 16 * mib}},
		{"very far behind", 1_000_000, spaced(1, 1000, 1, 1, 0), 16 * mib, plan{1_000_000, 1000, 64, 16 * mib}},
		{"within the budget", 1_000_000, spaced(1, 1000, 1, 1, 1024), 16 * mib, plan{1_000_000, 1000, 13, 16 * mib}},
		{"too large for the budget", 1_000_000, spaced(1, 1000, 1, 2, 8192), 16 * mib, plan{}},
		{"sparse", 1_000_000, spaced(1, 1000, 10, 1, 0), 16 * mib, plan{1_000_000, 9491, 64, 16 * mib}},
		{"not in order", 1_000_000, append(spaced(1000, 1000, 1, 1, 0), spaced(1, 1, 1, 1, 0)...), 16 * mib, plan{}},
		{"no header", 0, spaced(1, 1000, 1, 1, 0), 16 * mib, plan{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := planCatchup(tc.head, extentOf(tc.events), tc.budget)
			require.Equal(t, tc.want.parts > 0, ok)
			if ok {
				assert.Equal(t, tc.want, got)
			}
		})
	}
}
