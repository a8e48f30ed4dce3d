// Apicheck compares the exported API of the official etcd client with the one that compat/clientv3 gives in its place.
// It prints a table, package by package, and then whatever differs, and exits with 1 if a program that compiles with the
// official client would not compile with ours.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/quorate/quorate/compat/internal/api"
	"github.com/quorate/quorate/compat/internal/source"
)

func main() {
	page := flag.String("page", "", "file to write the list of what ours adds to, as Markdown")
	flag.Parse()
	passed, err := run(*page)
	if err != nil {
		fmt.Fprintln(os.Stderr, "apicheck:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

func run(page string) (passed bool, err error) {
	tree, err := source.Find()
	if err != nil {
		return false, err
	}
	pairs, err := tree.Pairs()
	if err != nil {
		return false, err
	}
	reports, err := api.Check(tree, pairs)
	if err != nil {
		return false, err
	}
	fmt.Println(api.Table(reports))
	passed = true
	for _, r := range reports {
		fmt.Print(r.String())
		passed = passed && r.Passes()
	}
	if page != "" {
		err = os.WriteFile(page, []byte(api.Page(reports)), 0o644)
	}
	return passed, err
}
