// Command program runs behaviours with the client that it is compiled with.
//
//	program <name>…    reads a site.Site as JSON from standard input, runs behaviours there in this order, and prints
//	                   a site.Outcome as JSON
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/quorate/quorate/lab/behaviours"
	"github.com/quorate/quorate/lab/servers/site"
)

func main() {
	var at site.Site
	err := json.NewDecoder(os.Stdin).Decode(&at)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(behaviours.Play(context.Background(), at, os.Args[1:]...))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "program:", err)
		os.Exit(1)
	}
}
