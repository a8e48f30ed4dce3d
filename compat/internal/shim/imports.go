package shim

import (
	"fmt"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/quorate/quorate/compat/internal/source"
)

// forwarded is the name by which a file of the shim imports the package that it forwards to.
const forwarded = "quorate"

// imports are the imports of one generated file: names by import path.
type imports struct {
	from  *types.Package
	names map[string]string
}

func newImports(from *source.Package) imports {
	return imports{from: from.Package, names: map[string]string{from.Path(): forwarded}}
}

func (i imports) add(importPath, name string) { i.names[importPath] = name }

// qualify is a [types.Qualifier]: it returns the name of a package and imports it. Types of ours are written as the
// shim's, which they are; those of the package itself need no qualifier.
func (i imports) qualify(pkg *types.Package) string {
	if pkg.Path() == i.from.Path() {
		return ""
	}
	importPath := source.ToOfficial(pkg.Path())
	if name := i.names[importPath]; name != "" {
		return name
	}
	name, taken := pkg.Name(), slices.Collect(maps.Values(i.names))
	for n := 2; slices.Contains(taken, name); n++ {
		name = fmt.Sprint(pkg.Name(), n)
	}
	i.names[importPath] = name
	return name
}

// source is the list of imports, in the groups of gci: the standard library, then others.
func (i imports) source() string {
	var standard, others string
	for _, importPath := range slices.Sorted(maps.Keys(i.names)) {
		line := fmt.Sprintf("%q\n", importPath)
		if name := i.names[importPath]; name != path.Base(importPath) {
			line = name + " " + line
		}
		if isStandard(importPath) {
			standard += line
		} else {
			others += line
		}
	}
	if standard == "" {
		return others
	}
	return standard + "\n" + others
}

// isStandard reports whether an import path is of the standard library: its first element has no dot.
func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}
