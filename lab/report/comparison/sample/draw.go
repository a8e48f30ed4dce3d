package sample

import (
	"math"

	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/report/comparison"
)

// draw fills in the timeline of a run, and the figures that follow from it.
func draw(r *comparison.Run, does behaviour) {
	r.Figures.Calls = map[string]comparison.CallFigures{}
	t := &r.Timeline
	for _, k := range history.Kinds() {
		calls, held := calls(k, does)
		t.Calls[k.ID()] = calls
		f := comparison.CallFigures{
			Completed: sum(calls.Completed) + sum(calls.Late), Failed: sum(calls.Failed), Unknown: sum(calls.Unknown),
			CompletedPercent: math.Round(100 * float64(held) / (usual * heal / bucket)), LongestGapMS: 41, SlowestMS: 120,
		}
		if sum(calls.Late) > 0 {
			f.LongestGapMS, f.SlowestMS = 1250, heal
		}
		r.Figures.Calls[k.ID()] = f
	}
	for i := range buckets() {
		_, _, _, _, lag, lost := does(at(i))
		margin := -1.0
		if i%20 == 0 {
			margin = 1990
		}
		t.LagMS, t.MarginMS, t.Expired = append(t.LagMS, lag), append(t.MarginMS, margin), append(t.Expired, lost)
		r.Figures.SlowestWatchMS = max(r.Figures.SlowestWatchMS, lag)
		r.Figures.LeasesExpired += lost
	}
	r.Figures.SmallestMarginMS, r.Figures.Delivered = 1990, 12345
}

// calls returns the calls of one kind, and how many were completed while the fault was
// held.
func calls(k history.Kind, does behaviour) (c comparison.Calls, held int64) {
	for i := range buckets() {
		part, late, failed, unknown, _, _ := does(at(i))
		if !k.Writes() {
			unknown = 0
		}
		completed := int64(part * (usual + float64(i*7%5) - 2))
		c.Completed, c.Late = append(c.Completed, completed), append(c.Late, late)
		c.Failed, c.Unknown = append(c.Failed, failed), append(c.Unknown, unknown)
		if at(i) >= 0 && at(i) < heal {
			held += completed + late
		}
	}
	return c, held
}

func buckets() int { return int((to - from) / bucket) }

// at returns when a bucket begins.
func at(i int) float64 { return from + float64(i)*bucket }

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// bands has every state that Quorate's endpoints can be in, a state that nobody knows, and
// one that is hostile.
func bands() []comparison.Band {
	states := []string{
		"serving", "suspected", "dead", "slow", "not serving", "restricted", "lagging", "degraded", "draining", "unknown", "enchanted", Hostile,
	}
	all := append(make([]comparison.Band, 0, 4+len(states)),
		comparison.Band{Member: "m1", State: "serving", FromMS: from, ToMS: to},
		comparison.Band{Member: "m3", State: "serving", FromMS: from, ToMS: 300},
		comparison.Band{Member: "m3", State: "suspected", FromMS: 300, ToMS: 550},
		comparison.Band{Member: "m3", State: "dead", FromMS: 550, ToMS: to},
	)
	each := (to - from) / float64(len(states))
	for i, state := range states {
		begin := from + float64(i)*each
		all = append(all, comparison.Band{Member: "m2", State: state, FromMS: begin, ToMS: begin + each})
	}
	return all
}
