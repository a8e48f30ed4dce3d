package main

import (
	"runtime"
	"runtime/debug"
)

// unit is the unit of a row, "" for counts.
type unit string

// The units.
const (
	percent      unit = "%"
	milliseconds unit = "ms"
	seconds      unit = "s"
	kilobytes    unit = "KB" // 1,024 bytes
)

// row is one number that was measured with one kind of client.
type row struct {
	Metric   string
	Unit     unit
	Value    float64
	optional bool // not shown when it is 0
}

// result is what the program prints.
type result struct {
	Environment environment   `json:"environment"`
	Clients     int           `json:"clients"`
	OneProcess  bool          `json:"oneProcess"`
	Phases      []phaseResult `json:"phases"`
	Notes       []string      `json:"notes,omitempty"`
	kinds       []string
}

// phaseResult is what was measured of one phase.
type phaseResult struct {
	Name    string  `json:"name"`
	About   string  `json:"about"`
	Seconds float64 `json:"seconds"`
	Lines   []line  `json:"lines"`
}

// line is one metric of a phase with every kind of client.
type line struct {
	Metric string `json:"metric"`
	Unit   unit   `json:"unit,omitempty"`
	// Values are those of each kind of client. A kind that did not get that far has
	// none.
	Values map[string]float64 `json:"values"`
	// Ratio is the official client's value divided by Quorate's, nil if there is none.
	Ratio *float64 `json:"ratio,omitempty"`
}

// environment is where the run was made, and of what.
type environment struct {
	GOOS            string `json:"goos"`
	GOARCH          string `json:"goarch"`
	CPUs            int    `json:"cpus"`
	Go              string `json:"go"`
	OfficialVersion string `json:"officialVersion"`
}

// here returns that of this machine.
func here() environment {
	env := environment{GOOS: runtime.GOOS, GOARCH: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "go.etcd.io/etcd/client/v3" {
				env.OfficialVersion = m.Version
			}
		}
	}
	return env
}

func newResult(opts options) result {
	return result{
		Environment: here(), Clients: opts.clients, OneProcess: opts.oneProcess, kinds: opts.kinds,
	}
}

// add adds what was measured with one kind of client.
func (r *result) add(p phase, kind string, rows []row) {
	at := r.phase(p)
	last := -1
	for _, row := range rows {
		i := at.index(row.Metric)
		if i < 0 {
			i = last + 1
			at.Lines = append(at.Lines[:i], append([]line{{Metric: row.Metric, Unit: row.Unit, Values: map[string]float64{}}}, at.Lines[i:]...)...)
		}
		at.Lines[i].Values[kind] = row.Value
		last = i
	}
}

// phase returns the results of a phase.
func (r *result) phase(p phase) *phaseResult {
	for i := range r.Phases {
		if r.Phases[i].Name == p.name {
			return &r.Phases[i]
		}
	}
	r.Phases = append(r.Phases, phaseResult{Name: p.name, About: p.about, Seconds: p.length.Seconds()})
	return &r.Phases[len(r.Phases)-1]
}

// index returns the place of a metric, -1 if there is none.
func (p *phaseResult) index(metric string) int {
	for i, l := range p.Lines {
		if l.Metric == metric {
			return i
		}
	}
	return -1
}

// complete adds the ratios, and the zeros of counts that have no row with one kind of
// client.
func (r *result) complete() {
	for _, p := range r.Phases {
		for kind := range p.Lines[0].Values { // every kind has the first line
			for _, l := range p.Lines {
				if _, ok := l.Values[kind]; !ok && l.Unit == "" {
					l.Values[kind] = 0
				}
			}
		}
		for i := range p.Lines {
			p.Lines[i].compare()
		}
	}
}

func (l *line) compare() {
	official, measured := l.Values[official]
	if quorate := l.Values[quorate]; measured && quorate != 0 {
		ratio := official / quorate
		l.Ratio = &ratio
	}
}
