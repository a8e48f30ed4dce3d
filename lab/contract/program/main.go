// Command program runs the scenarios of one kind. It reads a contract.Site as JSON from standard input, and prints a
// contract.Outcome as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/quorate/quorate/lab/contract"
	"github.com/quorate/quorate/lab/contract/scenarios"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "program:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 || scenarios.All[scenarios.Kind(args[0])] == nil {
		return fmt.Errorf("usage: program <kind of scenarios>")
	}
	var site contract.Site
	if err := json.NewDecoder(os.Stdin).Decode(&site); err != nil {
		return err
	}
	outcome := contract.Play(context.Background(), site, scenarios.All[scenarios.Kind(args[0])])
	return json.NewEncoder(os.Stdout).Encode(outcome)
}
