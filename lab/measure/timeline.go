package measure

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/lab/history"
)

const (
	// Bucket is the resolution of a [Timeline].
	Bucket = 50 * time.Millisecond
	// LateAfter is how long a completed call may have taken and not be late. It is a
	// hundred times what a call of the lab takes while all is well, and what a program
	// that serves people can just hide from them.
	LateAfter = time.Second
)

// Timeline is what a run looked like from one moment to the next, in buckets of
// [Bucket] that count from the beginning of the run. A [Meter] draws it, see
// [Meter.Draw]; its methods must not be called before the run has ended. The zero
// value is ready to be drawn.
type Timeline struct {
	kinds   [history.NumKinds]CallBuckets
	lag     []time.Duration
	margins []time.Duration // noMargin where no lease was renewed
	expired []int64
	bands   []Band
	open    map[string]int // the band of each endpoint that has not ended
}

// noMargin stands where no lease was renewed.
const noMargin = time.Duration(-1)

// CallBuckets counts the calls of one kind by the bucket in which they ended. Each
// counts once. The slices are of equal length.
type CallBuckets struct {
	// Completed calls were answered within LateAfter, Late ones after more.
	Completed, Late []int64
	// Failed calls certainly had no effect, Unknown are writes that may or may not
	// have been executed.
	Failed, Unknown []int64
}

// Band is a stretch of time in which the client saw an endpoint in one state.
type Band struct {
	// Endpoint as it was given to the client.
	Endpoint string
	// State is the client's own name for it.
	State string
	// From and To bound the stretch, as offsets from the beginning of the run.
	From, To time.Duration
}

// Window is a part of a [Timeline]. All its slices have one element for each bucket.
type Window struct {
	// From is when the first bucket begins.
	From time.Duration
	// Kinds holds the calls, indexed by kind.
	Kinds [history.NumKinds]CallBuckets
	// Lag is, at its worst in the bucket, the age of the oldest acknowledged change
	// that a watch owed or had just delivered, counted from its acknowledgement, or
	// from its invocation if the outcome was unknown. It is 0 where no watch owed or
	// delivered anything.
	Lag []time.Duration
	// Margin is the least time that was left of a lease when it was renewed in the
	// bucket, negative where none was renewed, see [history.LeaseEvent].
	Margin []time.Duration
	// Expired counts the leases that were lost.
	Expired []int64
	// Bands holds what the client said of its endpoints, as far as it overlaps, ordered
	// by endpoint and time; none if the client does not say.
	Bands []Band
}

// Window returns the buckets that overlap the time from one offset to another.
func (t *Timeline) Window(from, to time.Duration) Window {
	first, end := int(from/Bucket), int((to+Bucket-1)/Bucket)
	end = max(end, first)
	w := Window{
		From: time.Duration(first) * Bucket, Lag: part(t.lag, first, end, 0),
		Margin: part(t.margins, first, end, noMargin), Expired: part(t.expired, first, end, 0),
	}
	for k := range t.kinds {
		b := &t.kinds[k]
		w.Kinds[k] = CallBuckets{
			Completed: part(b.Completed, first, end, 0), Late: part(b.Late, first, end, 0),
			Failed: part(b.Failed, first, end, 0), Unknown: part(b.Unknown, first, end, 0),
		}
	}
	for _, b := range t.bands {
		if b.To > from && b.From < to {
			b.From, b.To = max(b.From, from), min(b.To, to)
			w.Bands = append(w.Bands, b)
		}
	}
	slices.SortFunc(w.Bands, func(a, b Band) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.From, b.From))
	})
	return w
}

// part returns the elements from first up to, and without, end of a slice that goes
// on with zeros behind its end.
func part[T any](s []T, first, end int, zero T) []T {
	out := slices.Repeat([]T{zero}, end-first)
	if first < len(s) {
		copy(out, s[first:min(end, len(s))])
	}
	return out
}

// at returns the element of the bucket that a moment lies in.
func at[T any](s *[]T, moment time.Duration, zero T) *T {
	i := int(max(moment, 0) / Bucket)
	if n := i + 1 - len(*s); n > 0 {
		*s = append(*s, slices.Repeat([]T{zero}, n)...)
	}
	return &(*s)[i]
}

// call counts a call that has ended.
func (t *Timeline) call(c history.Call) {
	if t == nil {
		return
	}
	b := &t.kinds[c.Kind]
	counts := &b.Completed
	switch {
	case c.Outcome == history.Failed:
		counts = &b.Failed
	case c.Outcome == history.Unknown:
		counts = &b.Unknown
	case c.Outcome == history.Abandoned:
		return
	case c.End-c.Start > LateAfter:
		counts = &b.Late
	}
	*at(counts, c.End, 0)++
}

// owed draws a change that a watch owed from one moment to another.
func (t *Timeline) owed(from, to time.Duration) {
	if t == nil {
		return
	}
	at(&t.lag, to, 0)
	for i := int(max(to, 0) / Bucket); i >= int(max(from, 0)/Bucket); i-- {
		age := max(min(time.Duration(i+1)*Bucket, to)-from, 0)
		if i < int(to/Bucket) && t.lag[i] >= age {
			return // an older change was owed then, and in all buckets before
		}
		t.lag[i] = max(t.lag[i], age)
	}
}

// lease draws what happened to a lease.
func (t *Timeline) lease(e history.LeaseEvent) {
	if t == nil {
		return
	}
	switch e.Kind {
	case history.LeaseRenewed:
		least := at(&t.margins, e.At, noMargin)
		if margin := max(e.Margin, 0); *least == noMargin || margin < *least {
			*least = margin
		}
	case history.LeaseExpired:
		*at(&t.expired, e.At, 0)++
	default:
	}
}

// states draws what the client says of its endpoints at a moment. What it said of one
// before holds until then.
func (t *Timeline) states(moment time.Duration, states map[string]string) {
	if t == nil {
		return
	}
	if t.open == nil {
		t.open = map[string]int{}
	}
	for endpoint, i := range t.open {
		if _, said := states[endpoint]; !said {
			delete(t.open, endpoint)
			continue
		}
		t.bands[i].To = moment
	}
	for endpoint, state := range states {
		if i, known := t.open[endpoint]; known && t.bands[i].State == state {
			continue
		}
		t.open[endpoint] = len(t.bands)
		t.bands = append(t.bands, Band{Endpoint: endpoint, State: state, From: moment, To: moment})
	}
}
