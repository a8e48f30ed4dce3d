// Command behaviours is a program of etcd's official client that shows one behaviour of a client and a server at a time.
//
// Package matrix compiles it twice, as it stands and with the shim in place of the client, and runs each behaviour in a
// process of its own against a server that it started:
//
//	behaviours list               prints the behaviours as JSON
//	behaviours run <behaviour>    reads a servers.Site as JSON from standard input
//
// A behaviour that is as it should be ends with status 0. Any other prints what was wrong in one line, and ends with
// status 1.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/servers/site"
)

func main() {
	switch args := os.Args[1:]; {
	case len(args) == 1 && args[0] == "list":
		list()
	case len(args) == 2 && args[0] == "run":
		run(args[1])
	default:
		fmt.Fprintln(os.Stderr, "usage: behaviours list | behaviours run <behaviour>")
		os.Exit(2)
	}
}

func list() {
	listed := make([]site.Behaviour, 0, len(behaviours))
	for _, b := range behaviours {
		listed = append(listed, b.Behaviour)
	}
	must(json.NewEncoder(os.Stdout).Encode(listed))
}

func run(name string) {
	var s place
	must(json.NewDecoder(os.Stdin).Decode(&s.Site))
	for _, b := range behaviours {
		if b.Name == name {
			ctx, cancel := context.WithTimeout(context.Background(), b.Limit)
			defer cancel()
			b.run(ctx, &s)
			return
		}
	}
	fail("no such behaviour: %s", name)
}

// behaviour is a row of the matrix.
type behaviour struct {
	site.Behaviour
	run func(ctx context.Context, s *place)
}

// on makes a behaviour on a server of a setup.
func on(setup site.Setup, area, name string, run func(context.Context, *place)) behaviour {
	return behaviour{site.Behaviour{Area: area, Name: name, Setup: setup, Limit: 20 * time.Second}, run}
}

// long makes a behaviour that may take a minute.
func long(b behaviour) behaviour {
	b.Limit = time.Minute
	return b
}

// fail ends the process with what is wrong.
func fail(format string, args ...any) {
	fmt.Println(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
	os.Exit(1)
}

// must ends the process if there is an error.
func must(err error) {
	if err != nil {
		fail("%v", err)
	}
}

// want ends the process if a condition does not hold.
func want(ok bool, format string, args ...any) {
	if !ok {
		fail(format, args...)
	}
}

// ok returns the result of a call that must not fail.
func ok[T any](result T, err error) T {
	must(err)
	return result
}
