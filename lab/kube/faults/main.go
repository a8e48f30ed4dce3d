// Command faults shows what a kube-apiserver does while its etcd is in trouble: the same load,
// with client-go, on one that is built over the official client and on one over Quorate.
//
//	make kube-faults
//
// For each fault it measures how late events of watches, answers to LIST and writes were at worst,
// how many of eight leaders, elected by client-go with its defaults, lost their lease, and for how
// long the API server said that it was not ready. The figures are printed as JSON; -record writes them
// to a file, -picture draws them.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/kube"
)

// faults are those of the etcd cluster, in their order.
var faults = []string{"stop", "partition", "blackhole", "kill", "leader-kill"}

type settings struct {
	binaries []binary
	faults   []string
	hold     time.Duration // of each fault
	settle   time.Duration // how long it is measured after a fault, before the next one
	idle     time.Duration // how long the API server idles before, to measure its CPU
	starts   int
	record   string // where to write the figures, and
	picture  string // where to draw them; not at all if empty
	log      io.Writer
}

// binary is a kube-apiserver over one of the clients.
type binary struct{ client, path string }

func main() {
	lab.Main()
	klog.LogToStderr(false) // client-go logs every election
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := fatal.Catch(func() { run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// run ends with the first error, see package fatal.
func run(ctx context.Context, args []string, out, log io.Writer) {
	s := settings{faults: faults, settle: 10 * time.Second, idle: 20 * time.Second, log: log}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.SetOutput(log)
	overOfficial := flags.String("official", "", "kube-apiserver over the official client; none is left out")
	overQuorate := flags.String("quorate", "", "kube-apiserver over Quorate; none is left out")
	flags.DurationVar(&s.hold, "hold", 15*time.Second, "how long each fault lasts")
	flags.IntVar(&s.starts, "starts", 0, "how often the API server is started while a follower is cut off")
	flags.StringVar(&s.record, "record", "", "file for the figures, as JSON")
	flags.StringVar(&s.picture, "picture", "", "file for the picture, as SVG")
	fatal.If(flags.Parse(args))
	for _, b := range []binary{{official, *overOfficial}, {quorate, *overQuorate}} {
		if b.path != "" {
			s.binaries = append(s.binaries, b)
		}
	}
	if len(s.binaries) == 0 {
		fatal.If(errors.New("no API server: name one with -official or -quorate; `make kube-faults` builds both"))
	}
	s.save(s.measureAll(ctx), out)
}

// measureAll measures every API server.
func (s settings) measureAll(ctx context.Context) record {
	r := record{HoldSeconds: s.hold.Seconds()}
	for _, b := range s.binaries {
		fatal.If(fatal.Catch(func() { r.Results = append(r.Results, s.measure(ctx, b)) }), b.client)
	}
	return r
}

func (s settings) measure(ctx context.Context, b binary) result {
	s.logf("%s: starting\n", b.client)
	began := time.Now()
	c := fatal.OK(kube.Start(ctx, kube.Config{Binary: b.path, Etcd: lab.Config{Members: 3}}))
	defer func() { _ = c.Close() }() // an error before says more
	r := result{Client: b.client, Cost: costOf(ctx, c, time.Since(began), s.idle), Rows: s.disturb(ctx, c)}
	if s.starts > 0 {
		r.Starts = s.start(ctx, c)
	}
	fatal.If(c.Close())
	return r
}

// disturb injects the faults, one after the other, under load.
func (s settings) disturb(ctx context.Context, c *kube.ControlPlane) []row {
	l := startLoad(ctx, c)
	defer l.stop()
	var rows []row
	phase := func(name string, inject func(context.Context, fault.Scene) error) {
		s.logf("  %s\n", name)
		scene := fault.Scene{
			Cluster: c.Etcd(), Rand: rand.New(rand.NewPCG(rand.Uint64(), 0)),
			Note: func(text string) { s.logf("    %s\n", text) },
		}
		l.meter.reset(name)
		fatal.If(inject(ctx, scene))
		fatal.If(pause.For(ctx, s.hold))
		fatal.If(fault.Heal(ctx, scene))
		fatal.If(pause.For(ctx, s.settle))
		rows = append(rows, l.meter.read())
	}
	phase("none", func(context.Context, fault.Scene) error { return nil })
	for _, f := range fatal.OK(fault.Parse(s.faults)) {
		phase(f.Name, f.Inject)
	}
	return rows
}

// start starts the API server again and again while a follower is cut off from its peers.
func (s settings) start(ctx context.Context, c *kube.ControlPlane) (all []float64) {
	cluster := c.Etcd()
	cluster.Isolate(cluster.Others(fatal.OK(cluster.Leader(ctx)))[0])
	defer cluster.Heal()
	for range s.starts {
		fatal.If(c.Server().Kill())
		within, cancel := context.WithTimeout(ctx, time.Minute)
		began := time.Now()
		err := c.Server().Restart(within)
		cancel()
		fatal.If(ctx.Err())
		took := time.Since(began)
		if err != nil {
			s.logf("  not ready: %.200v\n", err)
			took = 0
		}
		s.logf("  started within %v\n", took.Round(time.Millisecond))
		all = append(all, took.Seconds())
	}
	return all
}

func (s settings) logf(format string, args ...any) { _, _ = fmt.Fprintf(s.log, format, args...) }

// The clients, as the record names them.
const (
	official = "official"
	quorate  = "quorate"
)

// record is the result of a run, from which pages are made. Times are in seconds.
type record struct {
	HoldSeconds float64  `json:"hold_seconds"`
	Results     []result `json:"results"`
}

// result is what was measured of one API server.
type result struct {
	Client string    `json:"client"`
	Cost   cost      `json:"cost,omitzero"`
	Rows   []row     `json:"faults"`
	Starts []float64 `json:"starts_seconds,omitempty"` // how long it took to be ready, 0 if it was not within a minute
}

// row has the worst figures from the beginning of a fault until the next one.
type row struct {
	Fault        string  `json:"fault"`
	Event        float64 `json:"event_seconds"`
	List         float64 `json:"list_seconds"`
	QuietList    float64 `json:"quiet_list_seconds"`
	Write        float64 `json:"write_seconds"`
	NotReady     float64 `json:"not_ready_seconds"`
	Writes       int     `json:"writes"`
	FailedWrites int     `json:"failed_writes"`
	LeasesLost   int     `json:"leases_lost"`
}

// save prints the record, and writes the files that were asked for.
func (s settings) save(r record, out io.Writer) {
	text := append(fatal.OK(json.MarshalIndent(r, "", "  ")), '\n')
	fatal.OK(out.Write(text))
	for path, content := range map[string][]byte{s.record: text, s.picture: []byte(draw(r))} {
		if path != "" {
			fatal.If(os.WriteFile(path, content, 0o644)) //nolint:gosec // pages of the repository, readable by all
		}
	}
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
