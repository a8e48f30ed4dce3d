// Shimgen writes compat/clientv3, the module that stands in for the official client, from the compiled API of ours.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/compat/internal/shim"
	"github.com/quorate/quorate/compat/internal/source"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "shimgen:", err)
		os.Exit(1)
	}
}

func run() error {
	tree, err := source.Find()
	if err != nil {
		return err
	}
	pairs, err := tree.Pairs()
	if err != nil {
		return err
	}
	files, err := shim.Generate(pairs)
	if err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(tree.Shim(), filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
