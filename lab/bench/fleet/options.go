package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/servers"
)

// options are those of the command line.
type options struct {
	clients   int
	processes int
	program   *servers.Program // by kind
	phases    []phase
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var pattern string
	var length time.Duration
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.clients, "clients", 100, "clients of each kind")
	flags.IntVar(&o.processes, "processes", 0, "processes that they are spread over (default one for each client)")
	flags.StringVar(&pattern, "phase", "", "run only the phases whose name matches the `regexp`: "+strings.Join(phaseNames(), ", ")+" (default all but the last three)")
	flags.DurationVar(&length, "length", 0, "length of each phase (default 30s, of phases that run alone their own)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.processes == 0 {
		o.processes = o.clients
	}
	err := errors.Join(o.selectPhases(pattern), o.check(length))
	for i, p := range o.phases {
		o.phases[i].length = cmp.Or(length, p.length, usualLength)
	}
	return o, err
}

func (o *options) selectPhases(pattern string) error {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("--phase: %w", err)
	}
	for _, p := range allPhases() {
		if pattern == "" && !p.alone || pattern != "" && matches.MatchString(p.name) {
			o.phases = append(o.phases, p)
		}
	}
	if len(o.phases) == 0 {
		return fmt.Errorf("no phase matches --phase %q; there are %s", pattern, strings.Join(phaseNames(), ", "))
	}
	if len(o.phases) > 1 && slices.ContainsFunc(o.phases, func(p phase) bool { return p.alone }) {
		return errors.New("storm, badcert and swallow run alone: give --phase a name")
	}
	return nil
}

func (o *options) check(length time.Duration) error {
	if o.clients < 1 {
		return fmt.Errorf("--clients must be at least 1; it is %d", o.clients)
	}
	if o.processes < 1 || o.processes > o.clients {
		return fmt.Errorf("--processes must be 1 to the number of clients, %d; it is %d", o.clients, o.processes)
	}
	if length < 0 {
		return fmt.Errorf("--length must be positive; it is %v", length)
	}
	return nil
}
