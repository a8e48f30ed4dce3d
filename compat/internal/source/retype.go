package source

import (
	"fmt"
	"go/types"

	"github.com/quorate/quorate/internal/fatal"
)

// AsOfficial type-checks our packages at the import paths of the official client, as the shim presents them. Tools that
// compare types by import path and name, as apidiff does, then see both APIs under the same paths. The result is by
// relative path.
func AsOfficial(pairs []Pair) map[string]*types.Package {
	r := retyper{sources: make(map[string]*Package), done: make(map[string]*types.Package)}
	for _, pair := range pairs {
		if pair.Quorate != nil {
			r.sources[pair.Quorate.Path()] = pair.Quorate
		}
	}
	byPath := make(map[string]*types.Package)
	for importPath := range r.sources {
		byPath[Relative(importPath)] = fatal.OK(r.check(importPath))
	}
	return byPath
}

type retyper struct {
	sources map[string]*Package       // by our import path
	done    map[string]*types.Package // likewise
}

func (r *retyper) check(importPath string) (*types.Package, error) {
	if pkg := r.done[importPath]; pkg != nil {
		return pkg, nil
	}
	source := r.sources[importPath]
	config := types.Config{Importer: importer{r, source}, IgnoreFuncBodies: true}
	pkg, err := config.Check(ToOfficial(importPath), source.Fset, source.Files, nil)
	if err != nil {
		return nil, fmt.Errorf("checking %s as %s: %w", importPath, ToOfficial(importPath), err)
	}
	r.done[importPath] = pkg
	return pkg, nil
}

// importer finds the imports of one package: other packages of ours are checked anew, too, and all else is taken from
// where it was compiled.
type importer struct {
	*retyper
	of *Package
}

func (i importer) Import(importPath string) (*types.Package, error) {
	if i.sources[importPath] != nil {
		return i.check(importPath)
	}
	if importPath == "unsafe" {
		return types.Unsafe, nil
	}
	for _, pkg := range i.of.Imports() {
		if pkg.Path() == importPath {
			return pkg, nil
		}
	}
	return nil, fmt.Errorf("%s was compiled without %s", i.of.Path(), importPath)
}
