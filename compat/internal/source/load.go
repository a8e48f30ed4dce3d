// Package source loads the APIs that the shim stands between: the official client at the version that compat/go.mod
// pins, and Quorate's client in this checkout. All are loaded with the modules that compat/go.mod requires, so that what they
// share is compiled once.
package source

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/quorate/quorate/internal/fatal"
)

const (
	// Official is the import path of the official client, which is the shim's too.
	Official = "go.etcd.io/etcd/client/v3"
	// Quorate is the import path of our client. Each package of the official client has its counterpart below it, at
	// the same relative path.
	Quorate = Module + "/clientv3"
	// Module is the path of the root module.
	Module = "github.com/quorate/quorate"

	compat = Module + "/compat"
)

// Tree is a checkout of the repository.
type Tree struct {
	// Root is the directory of the root module.
	Root string
}

// Find returns the checkout that the current directory is in. It asks the go command, so it works wherever packages of
// the module compat are run and tested. An error ends it, see package fatal.
func Find() Tree {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", compat).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	fatal.If(err, "looking for module "+compat)
	return Tree{Root: filepath.Dir(strings.TrimSpace(string(out)))}
}

// Compat returns the directory of the module compat.
func (t Tree) Compat() string { return filepath.Join(t.Root, "compat") }

// Shim returns the directory of the generated module.
func (t Tree) Shim() string { return filepath.Join(t.Root, "compat", "clientv3") }

// Environ returns the environment of a go command that must not see the workspace.
func Environ() []string { return append(os.Environ(), "GOWORK=off") }

// Relative returns the part of a package's import path below its module's, official or ours: "" for the client itself.
func Relative(importPath string) string {
	for _, prefix := range []string{Official, Quorate} {
		if importPath == prefix {
			return ""
		}
		if below, ok := strings.CutPrefix(importPath, prefix+"/"); ok {
			return below
		}
	}
	return importPath
}

// ToOfficial returns the import path at which users of the official client find one of our packages. Paths of other
// packages stay.
func ToOfficial(importPath string) string {
	if importPath != Quorate && !strings.HasPrefix(importPath, Quorate+"/") {
		return importPath
	}
	return path.Join(Official, Relative(importPath))
}

// Package is one compiled package.
type Package struct {
	*types.Package
	// Fset and Files are the source, with comments. They are set for packages of ours only.
	Fset  *token.FileSet
	Files []*ast.File
}

// Pair is a package of the official client and its counterpart.
type Pair struct {
	Official *types.Package
	// Quorate is nil where the official package exports nothing, so that there is nothing to forward.
	Quorate *Package
}

// Pairs loads every public package of the official client, in the order of their import paths, with our package at the
// same place. It ends with an error, see package fatal, when one of ours is missing or does not compile.
func (t Tree) Pairs() []Pair {
	official := t.official()
	var patterns []string
	for _, pkg := range official {
		if len(Exported(pkg)) > 0 {
			patterns = append(patterns, path.Join(Quorate, Relative(pkg.Path())))
		}
	}
	ours := t.quorate(patterns)
	pairs := make([]Pair, len(official))
	for i, pkg := range official {
		pairs[i] = Pair{Official: pkg, Quorate: ours[Relative(pkg.Path())]}
	}
	return pairs
}

// Exported returns the names of what a package exports, sorted.
func Exported(pkg *types.Package) []string {
	var names []string
	for _, name := range pkg.Scope().Names() {
		if token.IsExported(name) {
			names = append(names, name)
		}
	}
	return names
}

func (t Tree) official() []*types.Package {
	found := public(load(Environ(), t.Compat(), packages.LoadTypes, Official+"/..."))
	if len(found) == 0 {
		fatal.If(fmt.Errorf("no packages match %s/... in %s", Official, t.Compat()))
	}
	return found
}

// public returns the packages that a program can import, in the order of their import paths.
func public(loaded []*packages.Package) (found []*types.Package) {
	for _, pkg := range loaded {
		if !slices.Contains(strings.Split(pkg.PkgPath, "/"), "internal") && pkg.Name != "main" {
			found = append(found, pkg.Types)
		}
	}
	slices.SortFunc(found, func(a, b *types.Package) int { return strings.Compare(a.Path(), b.Path()) })
	return found
}

// quorate loads packages of ours with their source, by relative path.
func (t Tree) quorate(patterns []string) map[string]*Package {
	byPath := make(map[string]*Package)
	for _, pkg := range load(Environ(), t.Compat(), packages.LoadTypes|packages.NeedSyntax|packages.NeedTypesInfo, patterns...) {
		byPath[Relative(pkg.PkgPath)] = &Package{Package: pkg.Types, Fset: pkg.Fset, Files: pkg.Syntax}
	}
	return byPath
}

// CompileShim type-checks the shim, with the modules that the other packages are compiled with. It does not compile where ours
// exports something that mentions what another module cannot name.
func (t Tree) CompileShim() {
	dir := fatal.OK(os.MkdirTemp("", "shim"))
	defer func() { _ = os.RemoveAll(dir) }()
	workspace := filepath.Join(dir, "go.work")
	text := fmt.Sprintf("go 1.26.0\n\nuse (\n\t%q\n\t%q\n\t%q\n)\n", t.Root, t.Compat(), t.Shim())
	fatal.If(os.WriteFile(workspace, []byte(text), 0o600))
	load(append(os.Environ(), "GOWORK="+workspace), t.Shim(), packages.LoadTypes, "./...")
}

// Public loads the packages of a module of the workspace, in its folder, that a program can import, in the order of their
// import paths.
func (t Tree) Public(folder string) []*types.Package {
	return public(load(os.Environ(), filepath.Join(t.Root, folder), packages.LoadTypes, "./..."))
}

func load(environ []string, dir string, mode packages.LoadMode, patterns ...string) []*packages.Package {
	pkgs, err := packages.Load(&packages.Config{Mode: mode, Dir: dir, Env: environ}, patterns...)
	fatal.If(err, fmt.Sprintf("loading %s in %s", strings.Join(patterns, " "), dir))
	var errs []error
	for _, pkg := range pkgs {
		problem := "does not compile"
		if len(pkg.GoFiles) == 0 {
			problem = "is missing"
		}
		for _, e := range pkg.Errors {
			// The advice to download a package of this repository is misleading.
			message, _, _ := strings.Cut(e.Error(), "; to add it:")
			errs = append(errs, fmt.Errorf("package %s %s: %s", pkg.PkgPath, problem, message))
		}
	}
	fatal.If(errors.Join(errs...))
	return pkgs
}

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
