package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the picture, in pixels. Each fault has a line for each client; each column is a
// bar of the worst delay.
const (
	labelWidth  = 236
	columnWidth = 156
	barWidth    = 104 // of the longest delay; its figure stands beside it
	leaseWidth  = 92
	lineHeight  = 17
	faultHeight = 2*lineHeight + 12
	headHeight  = 74
)

// columns are the delays that the picture shows.
var columns = []struct {
	name string
	of   func(row) float64
}{
	{"write", func(r row) float64 { return r.Write }},
	{"LIST", func(r row) float64 { return r.List }},
	{"LIST, quiet kind", func(r row) float64 { return r.QuietList }},
	{"event of a watch", func(r row) float64 { return r.Event }},
}

// labels say what the faults are.
var labels = map[string]string{
	"stop":        "a follower is frozen",
	"partition":   "a follower is cut off from its peers",
	"blackhole":   "a follower swallows clients' bytes",
	"kill":        "a follower is killed",
	"leader-kill": "the leader is killed",
}

// colors stand out on light and on dark pages.
var colors = map[string]string{official: "#d9722e", quorate: "#2f81f7"}

const style = `<style>
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.title{font-size:15px;font-weight:600}.head{font-weight:600}.small{font-size:12px;fill:#59636e}
.rule{stroke:#8b949e;stroke-opacity:.35}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}}
</style>
`

// draw returns the delays of every fault as an SVG that needs nothing else. The phase without
// a fault is left out.
func draw(r record) string {
	longest := 1.0
	var faults []int
	for i, first := range r.Results[0].Rows {
		if first.Fault == "none" {
			continue
		}
		faults = append(faults, i)
		for _, one := range r.Results {
			for _, c := range columns {
				longest = max(longest, math.Ceil(c.of(one.Rows[i])))
			}
		}
	}
	width := labelWidth + len(columns)*columnWidth + leaseWidth
	height := headHeight + len(faults)*faultHeight + 8
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	b.WriteString("<title>The worst delays of a kube-apiserver while its etcd has a fault, over the official client and over Quorate</title>\n")
	b.WriteString(style)
	drawHead(&b, r)
	for n, i := range faults {
		top := headHeight + n*faultHeight
		fmt.Fprintf(&b, `<line class="rule" x1="0" y1="%d" x2="%d" y2="%d"/>`+"\n", top, width, top)
		label, ok := labels[r.Results[0].Rows[i].Fault]
		if !ok {
			label = r.Results[0].Rows[i].Fault
		}
		text(&b, "", 0, top+faultHeight/2+4, label)
		for k, one := range r.Results {
			drawLine(&b, one.Client, one.Rows[i], top+6+k*lineHeight, longest)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func drawHead(b *strings.Builder, r record) {
	text(b, "title", 0, 18, fmt.Sprintf("A kube-apiserver on three etcd members: the worst delay while one member has a fault for %.0f s", r.HoldSeconds))
	x := 0
	for _, one := range r.Results {
		name := map[string]string{official: "over the official client", quorate: "over Quorate"}[one.Client]
		fmt.Fprintf(b, `<rect x="%d" y="31" width="12" height="12" rx="2" fill="%s"/>`+"\n", x, colors[one.Client])
		text(b, "small", x+18, 42, name)
		x += 160
	}
	for i, c := range columns {
		text(b, "head", labelWidth+i*columnWidth, headHeight-8, c.name)
	}
	text(b, "head", labelWidth+len(columns)*columnWidth, headHeight-8, "leases lost")
}

// drawLine draws the bars of one client in one fault.
func drawLine(b *strings.Builder, client string, r row, y int, longest float64) {
	for i, c := range columns {
		x, delay := labelWidth+i*columnWidth, c.of(r)
		long := max(delay/longest*barWidth, 1.5)
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="1.5" fill="%s"/>`+"\n", x, y, long, lineHeight-5, colors[client])
		text(b, "small", x+int(long)+5, y+lineHeight-6, brief(delay))
	}
	text(b, "small", labelWidth+len(columns)*columnWidth, y+lineHeight-6, fmt.Sprintf("%d of %d", r.LeasesLost, leaders))
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

func text(b *strings.Builder, class string, x, y int, s string) {
	fmt.Fprintf(b, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y, html.EscapeString(s))
}
