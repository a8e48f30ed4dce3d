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

func (s settings) measureAll(ctx context.Context) (record, error) {
	r := record{HoldSeconds: s.hold.Seconds()}
	for _, b := range s.binaries {
		one, err := s.measure(ctx, b)
		if err != nil {
			return r, fmt.Errorf("%s: %w", b.client, err)
		}
		r.Results = append(r.Results, one)
	}
	return r, nil
}

func (s settings) measure(ctx context.Context, b binary) (r result, err error) {
	r.Client = b.client
	s.logf("%s: starting\n", b.client)
	began := time.Now()
	c, err := kube.Start(ctx, kube.Config{Binary: b.path, Etcd: lab.Config{Members: 3}})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if r.Cost, err = costOf(ctx, c, time.Since(began), s.idle); err != nil {
		return r, err
	}
	if len(s.faults) > 0 {
		if r.Rows, err = s.disturb(ctx, c); err != nil {
			return r, err
		}
	}
	if s.starts > 0 {
		r.Starts, err = s.start(ctx, c)
	}
	return r, err
}

// disturb injects the faults, one after the other, under load.
func (s settings) disturb(ctx context.Context, c *kube.ControlPlane) ([]row, error) {
	l, err := startLoad(ctx, c)
	if err != nil {
		return nil, err
	}
	defer l.stop()
	var rows []row
	phase := func(name string, inject func(fault.Scene) error) error {
		s.logf("  %s\n", name)
		scene := fault.Scene{
			Cluster: c.Etcd(), Rand: rand.New(rand.NewPCG(rand.Uint64(), 0)),
			Note: func(text string) { s.logf("    %s\n", text) },
		}
		l.meter.reset(name)
		if err := inject(scene); err != nil {
			return err
		}
		if err := pause.For(ctx, s.hold); err != nil {
			return err
		}
		if err := fault.Heal(ctx, scene); err != nil {
			return err
		}
		if err := pause.For(ctx, s.settle); err != nil {
			return err
		}
		rows = append(rows, l.meter.read())
		return nil
	}
	if err := phase("none", func(fault.Scene) error { return nil }); err != nil {
		return nil, err
	}
	for _, f := range s.faults {
		if err := phase(f.Name, func(scene fault.Scene) error { return f.Inject(ctx, scene) }); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// start starts the API server again and again while a follower is cut off from its peers.
func (s settings) start(ctx context.Context, c *kube.ControlPlane) ([]float64, error) {
	cluster := c.Etcd()
	leader, err := cluster.Leader(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range cluster.Members() {
		if m != leader {
			cluster.Isolate(m)
			break
		}
	}
	defer cluster.Heal()
	var all []float64
	for range s.starts {
		if err := c.Kill(); err != nil {
			return nil, err
		}
		within, cancel := context.WithTimeout(ctx, time.Minute)
		began := time.Now()
		err := c.Restart(within)
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		took := time.Since(began)
		if err != nil {
			s.logf("  not ready: %.200v\n", err)
			took = 0
		}
		s.logf("  started within %v\n", took.Round(time.Millisecond))
		all = append(all, took.Seconds())
	}
	return all, nil
}

func (s settings) logf(format string, args ...any) { _, _ = fmt.Fprintf(s.log, format, args...) }
