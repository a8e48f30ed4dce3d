// Command faults shows what a kube-apiserver does while its etcd is in trouble: the same load,
// with client-go, on one that is built over the official client and on one over Quorate.
//
//	make kube-faults
//
// For each fault it prints how late events of watches, answers to LIST and writes were at worst,
// how many of eight leaders, elected by client-go with its defaults, lost their lease, and for how
// long the API server said that it was not ready.
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
	out, log     io.Writer
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
	s := settings{out: out, log: log}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.SetOutput(log)
	official := flags.String("official", "", "kube-apiserver over the official client; none is left out")
	quorate := flags.String("quorate", "", "kube-apiserver over Quorate; none is left out")
	names := flags.String("faults", "stop,partition,blackhole,kill,leader-kill", "faults of the etcd cluster, in this order; one of: "+strings.Join(fault.Names(), ", "))
	flags.DurationVar(&s.hold, "hold", 15*time.Second, "how long each fault lasts")
	flags.DurationVar(&s.settle, "settle", 10*time.Second, "how long it is measured after a fault, before the next one")
	flags.DurationVar(&s.idle, "idle", 20*time.Second, "how long the API server idles before, to measure its CPU")
	flags.IntVar(&s.starts, "starts", 0, "how often the API server is started while a follower is cut off")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, b := range []binary{{"official", *official}, {"quorate", *quorate}} {
		if b.path != "" {
			s.binaries = append(s.binaries, b)
		}
	}
	if len(s.binaries) == 0 {
		return errors.New("no API server: name one with -official or -quorate; `make kube-faults` builds both")
	}
	if *names != "" {
		var err error
		if s.faults, err = fault.Parse(strings.Split(*names, ",")); err != nil {
			return err
		}
	}
	var all []result
	for _, b := range s.binaries {
		r, err := s.measure(ctx, b)
		if err != nil {
			return fmt.Errorf("%s: %w", b.client, err)
		}
		all = append(all, r)
	}
	return printTables(out, all)
}

// result is what was measured of one API server.
type result struct {
	client string
	cost   cost
	rows   []row
	starts []time.Duration // how long it took to be ready, 0 if it was not within a minute
}

// row is what was measured during a fault, and until the next one.
type row struct {
	fault string
	seen
}

func (s settings) measure(ctx context.Context, b binary) (r result, err error) {
	r.client = b.client
	s.logf("%s: starting\n", b.client)
	began := time.Now()
	c, err := kube.Start(ctx, kube.Config{Binary: b.path, Etcd: lab.Config{Members: 3}})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if r.cost, err = costOf(ctx, c, time.Since(began), s.idle); err != nil {
		return r, err
	}
	if len(s.faults) > 0 {
		if r.rows, err = s.disturb(ctx, c); err != nil {
			return r, err
		}
	}
	if s.starts > 0 {
		r.starts, err = s.start(ctx, c)
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
		l.meter.reset()
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
		rows = append(rows, row{name, l.meter.read()})
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
func (s settings) start(ctx context.Context, c *kube.ControlPlane) ([]time.Duration, error) {
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
	var all []time.Duration
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
		all = append(all, took)
	}
	return all, nil
}

func (s settings) logf(format string, args ...any) { _, _ = fmt.Fprintf(s.log, format, args...) }
