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
	"github.com/quorate/quorate/internal/fatal"
)

func main() {
	page := flag.String("page", "", "file to write the list of what ours adds to, as Markdown")
	flag.Parse()
	passed := true
	if err := fatal.Catch(func() { passed = check(*page) }); err != nil {
		fmt.Fprintln(os.Stderr, "apicheck:", err)
		passed = false
	}
	if !passed {
		os.Exit(1)
	}
}

// check ends with the first error, see package fatal.
func check(page string) (passed bool) {
	tree := source.Find()
	reports := api.Check(tree, tree.Pairs())
	fmt.Println(api.Table(reports))
	passed = true
	for _, r := range reports {
		fmt.Print(r.String())
		passed = passed && r.Passes()
	}
	if page != "" {
		fatal.If(os.WriteFile(page, []byte(api.Page(reports)), 0o644))
	}
	return passed
}
