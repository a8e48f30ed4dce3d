// Shimgen writes compat/clientv3, the module that stands in for the official client, from the compiled API of ours.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/compat/internal/shim"
	"github.com/quorate/quorate/compat/internal/source"
	"github.com/quorate/quorate/internal/fatal"
)

func main() {
	if err := fatal.Catch(generate); err != nil {
		fmt.Fprintln(os.Stderr, "shimgen:", err)
		os.Exit(1)
	}
}

// generate ends with the first error, see package fatal.
func generate() {
	tree := source.Find()
	for name, content := range shim.Generate(tree.Pairs()) {
		path := filepath.Join(tree.Shim(), filepath.FromSlash(name))
		fatal.If(os.MkdirAll(filepath.Dir(path), 0o755))
		fatal.If(os.WriteFile(path, content, 0o644))
	}
}
