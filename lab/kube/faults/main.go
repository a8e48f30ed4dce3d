// Command faults shows what a kube-apiserver does while its etcd is in trouble: the same load,
// with client-go, on one that is built over the official client and on one over Quorate.
//
//	make kube-faults
//
// For each fault it prints how late events of watches, answers to LIST and writes were at worst,
// how many of eight leaders, elected by client-go with its defaults, lost their lease, and for how
// long the API server said that it was not ready. -record writes the figures to a file, -picture
// draws them; -from prints and draws what a file has recorded, and measures nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/kube"
)

type settings struct {
	binaries     []binary
	faults       []fault.Fault
	hold, settle time.Duration
	idle         time.Duration
	starts       int
	from         string // a record to show instead of measuring
	record       string // where to write the figures, and
	picture      string // where to draw them; not at all if empty
	log          io.Writer
}

// binary is a kube-apiserver over one of the clients.
type binary struct{ client, path string }

func main() {
	lab.Main()
	klog.LogToStderr(false) // client-go tells of every election
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	s, err := parse(args, log)
	if err != nil {
		return err
	}
	var r record
	if s.from != "" {
		r, err = readRecord(s.from)
	} else {
		r, err = s.measureAll(ctx)
	}
	if err != nil {
		return err
	}
	return errors.Join(printTables(out, r), s.save(r))
}

func parse(args []string, log io.Writer) (settings, error) {
	s := settings{log: log}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.SetOutput(log)
	overOfficial := flags.String("official", "", "kube-apiserver over the official client; none is left out")
	overQuorate := flags.String("quorate", "", "kube-apiserver over Quorate; none is left out")
	names := flags.String("faults", "stop,partition,blackhole,kill,leader-kill", "faults of the etcd cluster, in this order; one of: "+strings.Join(fault.Names(), ", "))
	flags.DurationVar(&s.hold, "hold", 15*time.Second, "how long each fault lasts")
	flags.DurationVar(&s.settle, "settle", 10*time.Second, "how long it is measured after a fault, before the next one")
	flags.DurationVar(&s.idle, "idle", 20*time.Second, "how long the API server idles before, to measure its CPU")
	flags.IntVar(&s.starts, "starts", 0, "how often the API server is started while a follower is cut off")
	flags.StringVar(&s.from, "from", "", "file of -record to print and draw; nothing is measured")
	flags.StringVar(&s.record, "record", "", "file for the figures, as JSON")
	flags.StringVar(&s.picture, "picture", "", "file for the picture, as SVG")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	for _, b := range []binary{{official, *overOfficial}, {quorate, *overQuorate}} {
		if b.path != "" {
			s.binaries = append(s.binaries, b)
		}
	}
	if len(s.binaries) == 0 && s.from == "" {
		return s, errors.New("no API server: name one with -official or -quorate; `make kube-faults` builds both")
	}
	if *names == "" {
		return s, nil
	}
	var err error
	s.faults, err = fault.Parse(strings.Split(*names, ","))
	return s, err
}

// measureAll measures every API server. An error ends it, see package fatal.
func (s settings) measureAll(ctx context.Context) (r record, err error) {
	r.HoldSeconds = s.hold.Seconds()
	for _, b := range s.binaries {
		if err := fatal.Catch(func() { r.Results = append(r.Results, s.measure(ctx, b)) }); err != nil {
			return r, fmt.Errorf("%s: %w", b.client, err)
		}
	}
	return r, nil
}

func (s settings) measure(ctx context.Context, b binary) result {
	s.logf("%s: starting\n", b.client)
	began := time.Now()
	c := fatal.OK(kube.Start(ctx, kube.Config{Binary: b.path, Etcd: lab.Config{Members: 3}}))
	defer func() { _ = c.Close() }() // an error before says more
	r := result{Client: b.client, Cost: costOf(ctx, c, time.Since(began), s.idle)}
	if len(s.faults) > 0 {
		r.Rows = s.disturb(ctx, c)
	}
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
	for _, f := range s.faults {
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
		fatal.If(c.Kill())
		within, cancel := context.WithTimeout(ctx, time.Minute)
		began := time.Now()
		err := c.Restart(within)
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
