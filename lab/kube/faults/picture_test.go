package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "draw the picture of the pages")

// The picture on the first page shows the figures of the record beside it.
func TestPictureIsOfTheRecord(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kube-faults.json")
	require.NoError(t, err)
	var r record
	require.NoError(t, json.Unmarshal(text, &r))
	path := "../../../docs/kube-faults.svg"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(draw(r)), 0o644))
	}
	picture, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, draw(r), string(picture), "run the test with -update to draw it")
}

// labels say what the faults are.
var labels = map[string]string{
	"stop":        "a follower is frozen",
	"partition":   "a follower is cut off from its peers",
	"blackhole":   "a follower swallows clients' bytes",
	"kill":        "a follower is killed",
	"leader-kill": "the leader is killed",
}

// frame is an SVG that needs nothing else. Its colors stand out on light and on dark pages.
const frame = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 952 %[1]d" width="952" height="%[1]d" role="img">
<title>The worst delays of a kube-apiserver while its etcd has a fault, over the official client and over Quorate</title>
<style>
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.title{font-size:15px;font-weight:600}.head text{font-weight:600}.small{font-size:12px;fill:#59636e}
.rule{stroke:#8b949e;stroke-opacity:.35}.official{fill:#d9722e}.quorate{fill:#2f81f7}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}}
</style>
<text class="title" y="18">A kube-apiserver on three etcd members: the worst delay while one member has a fault for %[2]v s</text>
<rect class="official" y="31" width="12" height="12" rx="2"/><text class="small" x="18" y="42">over the official client</text>
<rect class="quorate" x="160" y="31" width="12" height="12" rx="2"/><text class="small" x="178" y="42">over Quorate</text>
<g class="head"><text x="236" y="66">write</text><text x="392" y="66">LIST</text><text x="548" y="66">LIST, quiet kind</text>
<text x="704" y="66">event of a watch</text><text x="860" y="66">leases lost</text></g>
%[3]s</svg>
`

// delays are what the picture shows of a fault.
func (r row) delays() []float64 { return []float64{r.Write, r.List, r.QuietList, r.Event} }

// draw returns the delays of every fault, with a line for each client: a bar has 104 pixels for the longest, and its figure beside
// it. The phase without a fault, which is the first, is left out.
func draw(r record) string {
	longest := 1.0
	for _, one := range r.Results {
		for _, f := range one.Rows {
			longest = max(longest, math.Ceil(slices.Max(f.delays())))
		}
	}
	var b strings.Builder
	figure := func(x, y int, text string) {
		fmt.Fprintf(&b, "<text class=\"small\" x=\"%d\" y=\"%d\" dy=\"11\">%s</text>\n", x, y, text)
	}
	bottom := 74
	for i, first := range r.Results[0].Rows[1:] {
		fmt.Fprintf(&b, "<line class=\"rule\" x2=\"952\" y1=\"%[1]d\" y2=\"%[1]d\"/><text y=\"%[1]d\" dy=\"27\">%[2]s</text>\n",
			bottom, html.EscapeString(cmp.Or(labels[first.Fault], first.Fault)))
		for k, one := range r.Results {
			f, y := one.Rows[i+1], bottom+6+k*17
			for column, delay := range f.delays() {
				x, width := 236+column*156, max(delay/longest*104, 1.5)
				fmt.Fprintf(&b, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"12\" rx=\"1.5\"/>\n", one.Client, x, y, width)
				figure(x+int(width)+5, y, brief(delay))
			}
			figure(860, y, fmt.Sprintf("%d of %d", f.LeasesLost, leaders))
		}
		bottom += 46
	}
	return fmt.Sprintf(frame, bottom+8, r.HoldSeconds, b.String())
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
