package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/measure"
	"github.com/quorate/quorate/lab/report"
	"github.com/quorate/quorate/lab/report/comparison"
)

// describe fills in what the document says of all clients.
func (r *Result) describe(faults []fault.Fault) {
	d, setup := &r.Document, r.Reports[0].Setup
	d.Schema, d.Started = comparison.SchemaVersion, r.Reports[0].Started.UTC()
	d.BucketMS, d.LateAfterMS = ms(measure.Bucket), ms(measure.LateAfter)
	d.Setup = comparison.Setup{
		Members: setup.Members, CallersPerKind: setup.Callers, PauseMS: ms(setup.Pause),
		CallTimeoutMS: ms(setup.CallTimeout), FaultHeldMS: ms(setup.Hold), LeaseTTLMS: ms(setup.LeaseTTL), Seed: setup.Seed,
	}
	d.Faults = make([]comparison.Fault, 0, len(faults))
	for _, f := range faults {
		d.Faults = append(d.Faults, comparison.Fault{Name: f.Name, Summary: f.Summary})
	}
}

// document tells how the client did.
func (t *trial) document(rep report.Report) comparison.Client {
	out := comparison.Client{
		ID: t.client.ID, Label: t.client.Label, Name: t.client.Name, Description: t.client.Description,
		StatesKnown: t.states, Failure: rep.Failure, Violations: rep.Violations(), Samples: samples(rep),
		HealthyRate: map[string]float64{}, Runs: []comparison.Run{}, Report: whole(rep),
	}
	if len(rep.Rows) == 0 {
		return out
	}
	healthy := rep.Rows[0]
	for _, k := range history.Kinds() {
		out.HealthyRate[k.ID()] = round(perSecond(healthy.Kinds[k].Completed, healthy.End-healthy.Start), 1)
	}
	for _, row := range rep.Rows[1:] {
		if row.Fault.From > 0 { // the run may have ended before
			out.Runs = append(out.Runs, t.tell(row, healthy))
		}
	}
	return out
}

// samples returns the texts of the violations that a report has.
func samples(rep report.Report) []string {
	texts := make([]string, 0, len(rep.Verdict.Violations)+len(rep.Watches.Verdict.Violations))
	for _, v := range rep.Verdict.Violations {
		texts = append(texts, fmt.Sprintf("%s: %s", v.Promise, v.Message))
	}
	for _, v := range rep.Watches.Verdict.Violations {
		texts = append(texts, fmt.Sprintf("watch, %s: %s", v.Promise, v.Message))
	}
	return texts
}

// whole returns a report as JSON in one line.
func whole(rep report.Report) json.RawMessage {
	var indented, compact bytes.Buffer
	if err := report.JSON(&indented, rep); err != nil {
		return json.RawMessage("null") // a buffer takes everything, and a report has nothing that JSON has not
	}
	if err := json.Compact(&compact, indented.Bytes()); err != nil {
		return json.RawMessage("null") // and so has what was just encoded
	}
	return compact.Bytes()
}

// tell tells how the client got through a fault.
func (t *trial) tell(row, healthy measure.Row) comparison.Run {
	since := func(at time.Duration) float64 { return ms(at - row.Fault.From) }
	run := comparison.Run{
		Fault: row.Name, HealMS: since(row.Fault.To), Figures: figures(row, healthy),
		Moments:  make([]comparison.Moment, 0, len(row.Moments)),
		Events:   make([]comparison.Event, 0, len(row.Notes)),
		Timeline: t.timeline(row),
	}
	if row.Fault.Ready > 0 {
		run.ReadyMS = since(row.Fault.Ready)
	}
	for _, m := range row.Moments {
		run.Moments = append(run.Moments, comparison.Moment{
			AtMS: since(m.At), Leader: m.Leader, Reporter: m.Reporter,
			Gets: resumption(m.Gets), Puts: resumption(m.Puts), Watches: resumption(m.Watches),
			NewGets: resumption(m.NewGets), NewPuts: resumption(m.NewPuts), NewEvents: resumption(m.NewEvents),
		})
	}
	for _, n := range row.Notes {
		run.Events = append(run.Events, comparison.Event{AtMS: since(n.At), Text: n.Text})
	}
	return run
}

func resumption(r measure.Resumption) comparison.Resumption {
	return comparison.Resumption{Callers: r.Callers, FirstMS: ms(r.First), LastMS: ms(r.Last)}
}

func figures(row, healthy measure.Row) comparison.Figures {
	w, l := row.Watches, row.Leases
	out := comparison.Figures{
		Calls:          map[string]comparison.CallFigures{},
		SlowestWatchMS: ms(w.DelayMax), WatchSilenceMS: ms(w.LongestSilence),
		Delivered: w.Delivered, Lost: w.Undelivered, Repeated: w.Repeated,
		LeasesExpired: l.Expired, SmallestMarginMS: ms(l.SmallestMargin),
	}
	for _, k := range history.Kinds() {
		s := row.Kinds[k]
		calls := comparison.CallFigures{
			Completed: s.Completed, Failed: s.Errors, Unknown: s.Unknown, LongestGapMS: ms(s.LongestGap), SlowestMS: ms(s.Max),
		}
		if rate := perSecond(healthy.Kinds[k].Completed, healthy.End-healthy.Start); rate > 0 {
			calls.CompletedPercent = round(100*perSecond(s.Held, row.Fault.To-row.Fault.From)/rate, 1)
		}
		out.Calls[k.ID()] = calls
	}
	return out
}

// timeline returns the buckets of a row, and of a little time before its fault.
func (t *trial) timeline(row measure.Row) comparison.Timeline {
	w := t.line.Window(max(row.Fault.From-lead, 0), row.End)
	out := comparison.Timeline{
		FromMS: ms(w.From - row.Fault.From), Calls: map[string]comparison.Calls{},
		LagMS: make([]float64, len(w.Lag)), MarginMS: make([]float64, len(w.Margin)), Expired: w.Expired,
		Bands: make([]comparison.Band, 0, len(w.Bands)),
	}
	for i := range w.Lag {
		out.LagMS[i], out.MarginMS[i] = round(ms(w.Lag[i]), 1), -1
		if w.Margin[i] >= 0 {
			out.MarginMS[i] = math.Round(ms(w.Margin[i]))
		}
	}
	for _, k := range history.Kinds() {
		b := w.Kinds[k]
		out.Calls[k.ID()] = comparison.Calls{Completed: b.Completed, Late: b.Late, Failed: b.Failed, Unknown: b.Unknown}
	}
	for _, b := range w.Bands {
		out.Bands = append(out.Bands, comparison.Band{
			Member: t.member(b.Endpoint), State: b.State, FromMS: ms(b.From - row.Fault.From), ToMS: ms(b.To - row.Fault.From),
		})
	}
	return out
}

// member returns the name of the member behind an endpoint, whose scheme the client may
// leave out; members are named in the order of their endpoints.
func (t *trial) member(endpoint string) string {
	i := slices.IndexFunc(t.endpoints, func(e string) bool { return e == endpoint || strings.HasSuffix(e, "://"+endpoint) })
	if i < 0 {
		return endpoint
	}
	return fmt.Sprintf("m%d", i+1)
}

// perSecond returns how many of n there were in a second.
func perSecond(n int64, in time.Duration) float64 {
	if in <= 0 {
		return 0
	}
	return float64(n) / in.Seconds()
}

// ms converts to milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 3) }

// round rounds to so many decimals.
func round(v float64, decimals int) float64 {
	shift := math.Pow10(decimals)
	return math.Round(v*shift) / shift
}
