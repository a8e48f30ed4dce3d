package resolvers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/robustness"
)

// The promises.
const (
	// Serving means that no channel is without backends once its builder had some.
	Serving robustness.Promise = "serving"
	// Doubt means that the disappearance of most backends is not taken over at once.
	Doubt robustness.Promise = "doubt"
	// Current means that a channel has the current list soon after a change, and after the
	// source is back.
	Current robustness.Promise = "current"
	// Calls means that calls do not fail while backends serve.
	Calls robustness.Promise = "calls"
	// Spread means that a source which is back is not overrun.
	Spread robustness.Promise = "spread"
	// Clean means that nothing is left when all is closed.
	Clean robustness.Promise = "clean"
)

// Times sums durations up.
type Times struct {
	Count                int
	Median, P99, Longest time.Duration
}

func (t *timesOf) sum() Times {
	slices.Sort(t.all)
	at := func(q float64) time.Duration {
		if len(t.all) == 0 {
			return 0
		}
		return t.all[int(q*float64(len(t.all)-1))]
	}
	return Times{Count: len(t.all), Median: at(0.5), P99: at(0.99), Longest: at(1)}
}

// String returns the times in words.
func (t Times) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%d times, median %v, p99 %v, longest %v", t.Count, ms(t.Median), ms(t.P99), ms(t.Longest))
}

// Trial is the result of one resolver.
type Trial struct {
	Resolver string
	// Faults by name, and Changes of the backends.
	Faults  map[string]int
	Changes int
	// Opened is how long channels that opened or woke up waited for their first list.
	Opened Times
	// Seen is how long after each change, or the return of the source, channels had all backends.
	Seen Times
	// Calls that succeeded, and attempts that were repeated.
	Calls, Repeated int
	// Mean is how many requests and connections arrive at the source a second over the run, Peak
	// the most in the second after a return, and Tenth the most in a tenth of that.
	Mean        float64
	Peak, Tenth int
}

// Result is the result of a run.
type Result struct {
	robustness.Outcome
	// Channels as configured.
	Channels int
	// Trials has one for each resolver.
	Trials []Trial
	// Stalled is how long this process did not run, which counts for no resolver.
	Stalled time.Duration
}

// Checked reports whether there was anything to check.
func (res Result) Checked() bool { return len(res.Trials) > 0 }

// String returns the result in lines for people.
func (res Result) String() string {
	if !res.Checked() {
		return robustness.Nothing
	}
	head := fmt.Sprintf("%d channels over each resolver, the process stalled for %v", res.Channels, res.Stalled.Round(time.Millisecond))
	return res.Text(head, func(line robustness.Line) {
		for _, t := range res.Trials {
			t.lines(line)
		}
	})
}

func (t Trial) lines(line robustness.Line) {
	line(t.Resolver, "channels opened or woken %v, until the first list", t.Opened)
	line("", "calls %d, repeated attempts %d", t.Calls, t.Repeated)
	if len(t.Faults) == 0 {
		return
	}
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(t.Faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", name, t.Faults[name]))
	}
	line("", "faults %s", strings.Join(faults, ", "))
	line("", "changes %d, seen by channels %v", t.Changes, t.Seen)
	line("", "arrivals %.1f a second, after a return at most %d in a second, %d in a tenth", t.Mean, t.Peak, t.Tenth)
}
