// Command faults shows what a kube-apiserver does while its etcd is in trouble: the same load,
// with client-go, on one that is built over the official client and on one over Quorate.
//
//	make kube-faults
//
// For each fault it measures how late events of watches, answers to LIST and writes were at worst,
// how many of eight leaders, elected by client-go with its defaults, lost their lease, and for how
// long the API server said that it was not ready. The figures are printed as JSON. The test
// of the picture draws them with -update.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
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
	fatal.If(flags.Parse(args))
	for _, b := range []binary{{official, *overOfficial}, {quorate, *overQuorate}} {
		if b.path != "" {
			s.binaries = append(s.binaries, b)
		}
	}
	if len(s.binaries) == 0 {
		fatal.If(errors.New("no API server: name one with -official or -quorate; `make kube-faults` builds both"))
	}
	figures := json.NewEncoder(out)
	figures.SetIndent("", "  ")
	fatal.If(figures.Encode(s.measureAll(ctx)))
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
