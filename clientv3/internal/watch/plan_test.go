package watch

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// spaced returns a batch of revisions at a distance of apart, with each events per revision.
func spaced(from int64, revisions int, apart int64, each, bytes int) []*mvccpb.Event {
	var events []*mvccpb.Event
	for i := range int64(revisions) {
		for range each {
			events = append(events, &mvccpb.Event{Kv: &mvccpb.KeyValue{ModRevision: from + i*apart, Value: make([]byte, bytes)}})
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

// Every plan fits the budget and covers all revisions.
func TestPlansFitTheBudget(t *testing.T) {
	for _, apart := range []int64{1, 2, 7, 100} {
		for _, bytes := range []int{0, 100, 5000} {
			events := spaced(10, 1000, apart, 1, bytes)
			for _, budget := range []int{1, 1 << 20, 64 << 20} {
				p, ok := planCatchup(10_000_000, extentOf(events), budget)
				if !ok {
					continue
				}
				size := (&Response{Events: events}).size()
				assert.LessOrEqual(t, (p.parts-1)*size, budget, "%d apart, %d bytes", apart, bytes)
				assert.LessOrEqual(t, p.parts, maxParts)
				assert.Positive(t, p.step)
			}
		}
	}
}
