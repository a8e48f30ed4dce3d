// Package source loads the APIs that the shim stands between: the official client at the version that compat/go.mod
// pins, and Quorate's client in this checkout. All are loaded with the modules that compat/go.mod requires, so that what they
// share is compiled once.
package source

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

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
