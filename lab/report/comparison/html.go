package comparison

import (
	_ "embed" // the parts of the page
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"github.com/quorate/quorate/lab/internal/words"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	styleText string
	//go:embed page.js
	scriptText string

	page = template.Must(template.New("page").Parse(pageText))
)

// HTML writes the page: one file that needs nothing else and no network. It has the
// figures as text and tables, and the document as JSON in the element "data", from which
// a script in the page draws the timelines. The clients' reports are left out of it.
func HTML(w io.Writer, d Document) error {
	data, err := embedded(d)
	if err != nil {
		return err
	}
	v := viewOf(d)
	v.Style, v.Script, v.Data = template.CSS(styleText), template.JS(scriptText), data
	return page.Execute(w, v)
}

// embedded returns the document as JSON that can stand in a script element: the encoder
// writes <, > and & as escapes, so that no text of the document ends the element.
func embedded(d Document) (template.JS, error) {
	slim := d
	slim.Clients = make([]Client, len(d.Clients))
	for i, c := range d.Clients {
		c.Report = nil
		slim.Clients[i] = c
	}
	data, err := json.Marshal(slim)
	return template.JS(data), err
}

// view is what the page shows as text. The template escapes it.
type view struct {
	Style   template.CSS
	Script  template.JS
	Data    template.JS
	Lede    string
	Bucket  string
	Late    string
	Footer  string
	Alerts  []string
	Clients []clientView
	Faults  []faultView
}

type clientView struct {
	Name, Description, Verdict string
	Samples                    []string
}

type faultView struct {
	ID, Name, Summary string
	Rows              []rowView
	Runs              []runView
}

// rowView is a line of the table.
type rowView struct {
	Client             string
	Ours               bool
	Gets, Puts         string
	GetsPart, PutsPart float64 // of the bars, 0 to 1
	Gap, Slowest       string
	Watch              string
	Failed, Unknown    cell
	Lost, Leases       cell
}

// cell is a figure that should be 0.
type cell struct {
	Text string
	Bad  bool
}

func zeroIsGood(n int64) cell { return cell{Text: words.Count(n), Bad: n > 0} }

// runView is a column of timelines.
type runView struct {
	Client                  string
	Ours, Met               bool
	ClientIndex, FaultIndex int
	Spoken                  string
	Moments                 []momentView
	Events                  []eventView
}

// momentView is a small table: gets, puts and watches after a new leader was reported.
type momentView struct {
	Title     string
	New, Load [3]string
}

type eventView struct{ At, Text string }

func viewOf(d Document) view {
	v := view{
		Lede: fmt.Sprintf("Each client was given a fresh cluster of %d members, and %d callers of each kind of call with %s between "+
			"calls and a deadline of %s, as many watches, and as many leases with a TTL of %s. Each fault was held for %s.",
			d.Setup.Members, d.Setup.CallersPerKind, configured(d.Setup.PauseMS), configured(d.Setup.CallTimeoutMS),
			configured(d.Setup.LeaseTTLMS), configured(d.Setup.FaultHeldMS)),
		Bucket: configured(d.BucketMS), Late: configured(d.LateAfterMS),
		Footer: fmt.Sprintf("Measured with “quorate-lab faults --compare” on %s, seed %d. Times are those of the machine that it ran on.",
			d.Started.Format("2 January 2006, 15:04 MST"), d.Setup.Seed),
	}
	if d.Interrupted {
		v.Alerts = append(v.Alerts, "The comparison was ended early.")
	}
	for _, c := range d.Clients {
		if c.Failure != "" {
			v.Alerts = append(v.Alerts, fmt.Sprintf("%s: the run could not go on: %s.", c.Name, c.Failure))
		}
		v.Clients = append(v.Clients, clientView{Name: c.Name, Description: c.Description, Verdict: verdict(c), Samples: c.Samples})
	}
	for i := range d.Faults {
		v.Faults = append(v.Faults, faultViewOf(d, i))
	}
	return v
}

func verdict(c Client) string {
	switch {
	case c.Violations > 0:
		return fmt.Sprintf("Broken promises: %s.", words.Count(int64(c.Violations)))
	case c.Failure != "":
		return "Nothing wrong was found before the run ended."
	default:
		return "Every acknowledged write was there at the end, applied once; no linearizable read went backwards; no watch lost, repeated, " +
			"disordered or changed an event; no lease had ended while the client claimed it to live."
	}
}

func faultViewOf(d Document, fault int) faultView {
	f := d.Faults[fault]
	v := faultView{ID: fmt.Sprintf("fault-%d", fault+1), Name: f.Name, Summary: f.Summary}
	for i := range d.Clients {
		c := &d.Clients[i]
		ours := i == len(d.Clients)-1 && len(d.Clients) > 1
		run := runView{Client: c.Name, Ours: ours, ClientIndex: i, FaultIndex: fault}
		if r := c.run(fault); r != nil {
			v.Rows = append(v.Rows, rowViewOf(c, r, ours))
			run.fill(d, c, r, f)
		}
		v.Runs = append(v.Runs, run)
	}
	return v
}

func rowViewOf(c *Client, r *Run, ours bool) rowView {
	f := r.Figures
	gets, puts := f.Calls[get].CompletedPercent, f.Calls[put].CompletedPercent
	lost := cell{Text: fmt.Sprintf("%s, %s", words.Count(f.Lost), words.Count(f.Repeated)), Bad: f.Lost+f.Repeated > 0}
	return rowView{
		Client: c.Name, Ours: ours, Gets: percent(gets), Puts: percent(puts), GetsPart: min(gets/100, 1), PutsPart: min(puts/100, 1),
		Gap: duration(f.Calls[get].LongestGapMS), Slowest: duration(f.slowest()), Watch: duration(f.SlowestWatchMS),
		Failed: zeroIsGood(f.failed()), Unknown: zeroIsGood(f.unknown()), Lost: lost, Leases: zeroIsGood(f.LeasesExpired),
	}
}

// fill fills in what is shown of a fault that the client met.
func (v *runView) fill(d Document, c *Client, r *Run, f Fault) {
	v.Met = true
	fig := r.Figures
	v.Spoken = fmt.Sprintf("Timeline of %s under the fault %s. Linearizable gets: %s completed, longest gap %s. Puts: %s completed. "+
		"%s calls failed, %s writes of unknown outcome. Slowest watch delivery %s. %s leases lost. "+
		"Press the arrow keys to read it moment by moment.",
		c.Name, f.Name, percent(fig.Calls[get].CompletedPercent), duration(fig.Calls[get].LongestGapMS),
		percent(fig.Calls[put].CompletedPercent), words.Count(fig.failed()), words.Count(fig.unknown()), duration(fig.SlowestWatchMS),
		words.Count(fig.LeasesExpired))
	for _, m := range r.Moments {
		if m.Leader != "" {
			v.Moments = append(v.Moments, momentViewOf(m, d.Setup.CallersPerKind))
		}
	}
	for _, e := range r.Events {
		v.Events = append(v.Events, eventView{At: fmt.Sprintf("%.2f s", e.AtMS/1e3), Text: e.Text})
	}
}

func momentViewOf(m Moment, callers int) momentView {
	return momentView{
		Title: fmt.Sprintf("%s leads, reported %s after the injection. From there, first and last of %d:",
			m.Leader, duration(m.AtMS), callers),
		New:  [3]string{m.NewGets.span(callers), m.NewPuts.span(callers), m.NewEvents.span(callers)},
		Load: [3]string{m.Gets.span(callers), m.Puts.span(callers), m.Watches.span(callers)},
	}
}
