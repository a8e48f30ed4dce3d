package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
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
	var pattern regexp.Regexp
	var length time.Duration
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.clients, "clients", 100, "clients of each kind")
	flags.IntVar(&o.processes, "processes", 0, "processes that they are spread over (default one for each client)")
	flags.TextVar(&pattern, "phase", regexp.MustCompile(""),
		"run only the phases whose name matches the `regexp`: idle, light, frozen, overload, no-quorum, storm, badcert, swallow (default all but the last three)")
	flags.DurationVar(&length, "length", 0, "length of each phase (default 30s, of phases that run alone their own)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.processes = cmp.Or(o.processes, o.clients)
	alone := func(p phase) bool { return p.alone != nil }
	for _, p := range allPhases {
		if pattern.MatchString(p.name) && (pattern.String() != "" || !alone(p)) {
			p.length = cmp.Or(length, p.length)
			o.phases = append(o.phases, p)
		}
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.processes < 1 || o.processes > o.clients || length < 0:
		return o, errors.New("--clients and --length must be positive, and --processes 1 to the number of clients")
	case len(o.phases) == 0:
		return o, fmt.Errorf("no phase matches --phase %q", pattern.String())
	case len(o.phases) > 1 && slices.ContainsFunc(o.phases, alone):
		return o, errors.New("storm, badcert and swallow run alone: give --phase a name")
	}
	return o, nil
}
