// Command program is a process of clients. The benchmarks compile it with the official client, and with the shim in its place:
// "program case" measures one case, "program fleet" has many clients at work. Jobs come from standard input.
package main

import (
	"fmt"
	"os"
	"os/signal"

	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/bench/fleet/clients"
)

func main() {
	signal.Ignore(os.Interrupt) // the parent ends its children
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "case":
		return cases.Serve(os.Stdin, os.Stdout, cases.All())
	case len(args) == 1 && args[0] == "fleet":
		return clients.Serve(os.Stdin, os.Stdout)
	default:
		return fmt.Errorf("usage: program case | program fleet")
	}
}
