package main

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"text/template"
)

// labels say what the faults are.
var labels = map[string]string{
	"stop":        "a follower is frozen",
	"partition":   "a follower is cut off from its peers",
	"blackhole":   "a follower swallows clients' bytes",
	"kill":        "a follower is killed",
	"leader-kill": "the leader is killed",
}

// picture is an SVG that needs nothing else. Its colors stand out on light and on dark pages.
var picture = template.Must(template.New("").Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 952 {{.Height}}" width="952" height="{{.Height}}" role="img">
<title>The worst delays of a kube-apiserver while its etcd has a fault, over the official client and over Quorate</title>
<style>
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.title{font-size:15px;font-weight:600}.head text{font-weight:600}.small{font-size:12px;fill:#59636e}
.rule{stroke:#8b949e;stroke-opacity:.35}.official{fill:#d9722e}.quorate{fill:#2f81f7}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}}
</style>
<text class="title" y="18">A kube-apiserver on three etcd members: the worst delay while one member has a fault for {{.Hold}} s</text>
<rect class="official" y="31" width="12" height="12" rx="2"/><text class="small" x="18" y="42">over the official client</text>
<rect class="quorate" x="160" y="31" width="12" height="12" rx="2"/><text class="small" x="178" y="42">over Quorate</text>
<g class="head"><text x="236" y="66">write</text><text x="392" y="66">LIST</text><text x="548" y="66">LIST, quiet kind</text>
<text x="704" y="66">event of a watch</text><text x="860" y="66">leases lost</text></g>
{{range .Faults}}<line class="rule" x2="952" y1="{{.Y}}" y2="{{.Y}}"/><text y="{{.Y}}" dy="27">{{html .Text}}</text>
{{end}}{{range .Bars}}<rect class="{{.Client}}" x="{{.X}}" y="{{.Y}}" width="{{printf "%.1f" .Width}}" height="12" rx="1.5"/>
{{end}}{{range .Figures}}<text class="small" x="{{.X}}" y="{{.Y}}" dy="11">{{.Text}}</text>
{{end}}</svg>
`))

type bar struct {
	Client string
	X, Y   int
	Width  float64 // 104 pixels for the longest delay; its figure stands beside it
}

type figure struct {
	X, Y int
	Text string
}

// delays are what the picture shows of a fault.
func (r row) delays() []float64 { return []float64{r.Write, r.List, r.QuietList, r.Event} }

// draw returns the delays of every fault, with a line for each client. The phase without a fault, which is the first, is left out.
func draw(r record) string {
	longest := 1.0
	for _, one := range r.Results {
		for _, f := range one.Rows {
			for _, delay := range f.delays() {
				longest = max(longest, math.Ceil(delay))
			}
		}
	}
	var bars []bar
	var figures []figure
	rows := r.Results[0].Rows[1:]
	faults, bottom := make([]figure, 0, len(rows)), 74
	for i, first := range rows {
		faults = append(faults, figure{Y: bottom, Text: cmp.Or(labels[first.Fault], first.Fault)})
		for k, one := range r.Results {
			f, y := one.Rows[i+1], bottom+6+k*17
			for column, delay := range f.delays() {
				x, width := 236+column*156, max(delay/longest*104, 1.5)
				bars = append(bars, bar{one.Client, x, y, width})
				figures = append(figures, figure{x + int(width) + 5, y, brief(delay)})
			}
			figures = append(figures, figure{860, y, fmt.Sprintf("%d of %d", f.LeasesLost, leaders)})
		}
		bottom += 46
	}
	var b strings.Builder
	data := map[string]any{"Height": bottom + 8, "Hold": r.HoldSeconds, "Faults": faults, "Bars": bars, "Figures": figures}
	if err := picture.Execute(&b, data); err != nil {
		panic(err)
	}
	return b.String()
}

// brief is a delay with two digits.
func brief(s float64) string {
	switch {
	case s >= 9.95:
		return fmt.Sprintf("%.0f s", s)
	case s >= 0.995:
		return fmt.Sprintf("%.1f s", s)
	default:
		return fmt.Sprintf("%.2f s", s)
	}
}
