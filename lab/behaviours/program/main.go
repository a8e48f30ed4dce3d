// Command program runs behaviours with the client that it is compiled with.
//
//	program list           prints all behaviours as JSON
//	program run <name>…    reads a site.Site as JSON from standard input, runs behaviours there in this order, and prints
//	                       a site.Outcome as JSON
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/quorate/quorate/lab/behaviours"
	"github.com/quorate/quorate/lab/servers/site"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "program:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	out := json.NewEncoder(os.Stdout)
	switch {
	case len(args) == 1 && args[0] == "list":
		listed := make([]site.Behaviour, 0, len(behaviours.All))
		for _, b := range behaviours.All {
			listed = append(listed, b.Behaviour)
		}
		return out.Encode(listed)
	case len(args) > 1 && args[0] == "run":
		var at site.Site
		if err := json.NewDecoder(os.Stdin).Decode(&at); err != nil {
			return err
		}
		return out.Encode(behaviours.Play(context.Background(), at, args[1:]...))
	default:
		return errors.New("usage: program list | program run <name>…")
	}
}
