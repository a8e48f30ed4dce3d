package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/bench/internal/programs"
	"github.com/quorate/quorate/lab/servers"
)

// options are those of the command line.
type options struct {
	clients    int
	kinds      []string
	programs   programs.Set // by kind
	phases     []phase
	oneProcess bool
	json       bool

	ttl      time.Duration // of the leases
	interval time.Duration // between the gets of one client
	deadline time.Duration // of a get
	settle   time.Duration // between two phases
	recovery time.Duration // how long the end of a fault is measured
	outage   time.Duration // before quorum-back, when no-quorum is not run

	overloadDeadline time.Duration // of a get while the members are slow
	overloadDelay    time.Duration // added to each answer of a slow member
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var kind, pattern string
	var length time.Duration
	lengths := make(map[string]*time.Duration)
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.clients, "clients", 100, "clients of each kind")
	flags.StringVar(&kind, "client", "", "run only this `kind` of client: "+strings.Join(kinds, ", "))
	flags.StringVar(&pattern, "phase", "", "run only the phases whose name matches the `regexp`: "+strings.Join(phaseNames(), ", "))
	flags.BoolVar(&o.oneProcess, "one-process", false, "run all clients of a kind in one process, and measure its memory")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.DurationVar(&length, "length", 30*time.Second, "length of a phase")
	for _, p := range allPhases() {
		lengths[p.name] = flags.Duration(p.name+"-length", 0, "length of the phase "+p.name+" (default --length)")
	}
	flags.DurationVar(&o.ttl, "ttl", 30*time.Second, "TTL of the leases, in whole seconds")
	flags.DurationVar(&o.interval, "interval", time.Second, "time between two gets of a client")
	flags.DurationVar(&o.deadline, "deadline", 2*time.Second, "deadline of a get")
	flags.DurationVar(&o.overloadDeadline, "overload-deadline", 200*time.Millisecond, "deadline of a get in the phase overload")
	flags.DurationVar(&o.overloadDelay, "overload-delay", time.Second, "delay of an answer in the phase overload")
	flags.DurationVar(&o.settle, "settle", 3*time.Second, "pause before each phase")
	flags.DurationVar(&o.recovery, "recovery", 5*time.Second, "time for which the end of a fault is measured")
	flags.DurationVar(&o.outage, "outage", 10*time.Second, "time without quorum before quorum-back when no-quorum is not run")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	err := errors.Join(o.selectKinds(kind), o.selectPhases(pattern), o.check(length))
	for i, p := range o.phases {
		if o.phases[i].length = *lengths[p.name]; o.phases[i].length <= 0 {
			o.phases[i].length = length
		}
	}
	return o, err
}

// kinds are the clients that are compared, in the order in which they run.
var kinds = []string{official, quorate}

const (
	official = string(servers.Official)
	quorate  = string(servers.Quorate)
)

func (o *options) selectKinds(kind string) error {
	switch {
	case kind == "":
		o.kinds = kinds
	case slices.Contains(kinds, kind):
		o.kinds = []string{kind}
	default:
		return fmt.Errorf("no kind of client is %q; there are %s", kind, strings.Join(kinds, ", "))
	}
	return nil
}

func (o *options) selectPhases(pattern string) error {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("--phase: %w", err)
	}
	for _, p := range allPhases() {
		if matches.MatchString(p.name) {
			o.phases = append(o.phases, p)
		}
	}
	if len(o.phases) == 0 {
		return fmt.Errorf("no phase matches --phase %q; there are %s", pattern, strings.Join(phaseNames(), ", "))
	}
	return nil
}

func (o *options) check(length time.Duration) error {
	if o.clients < 1 {
		return fmt.Errorf("--clients must be at least 1; it is %d", o.clients)
	}
	if o.ttl < time.Second || o.ttl%time.Second != 0 {
		return fmt.Errorf("--ttl must be whole seconds, at least one; it is %v", o.ttl)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"length", length},
		{"interval", o.interval},
		{"deadline", o.deadline},
		{"overload-deadline", o.overloadDeadline},
		{"overload-delay", o.overloadDelay},
		{"settle", o.settle},
		{"recovery", o.recovery},
		{"outage", o.outage},
	} {
		if d.value <= 0 {
			return fmt.Errorf("--%s must be positive; it is %v", d.flag, d.value)
		}
	}
	return nil
}
