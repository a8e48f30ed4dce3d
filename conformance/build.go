package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// build is a suite with the client that it is compiled with.
type build struct {
	suite    suite
	dir      string   // temporary files
	flags    []string // of the go command
	official bool
}

// newBuild returns a suite over Quorate, or over the official client, and makes
// sure that it is. It must be removed.
func newBuild(ctx context.Context, s suite, official bool) (b build, err error) {
	b.suite, b.official = s, official
	if b.dir, err = os.MkdirTemp("", "quorate-conformance-"); err != nil {
		return b, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.remove())
		}
	}()
	if official {
		if err := b.dropQuorate(ctx); err != nil {
			return b, err
		}
	}
	modules, err := b.modules(ctx, s.modules()...)
	if err != nil {
		return b, err
	}
	if err := s.check(modules, official); err != nil {
		return b, err
	}
	if len(s.fixtures) == 0 {
		return b, nil
	}
	return b, b.linkFixtures(modules[etcdTests].Dir)
}

// dropQuorate makes go.mod one without Quorate.
func (b *build) dropQuorate(ctx context.Context) error {
	return b.editModule(ctx, "-dropreplace="+clientModule)
}

// editModule has the tests compiled with an edited copy of go.mod. The go command completes it.
func (b *build) editModule(ctx context.Context, edit string) error {
	file := filepath.Join(b.dir, "go.mod")
	if len(b.flags) == 0 {
		for _, name := range []string{"go.mod", "go.sum"} {
			content, err := os.ReadFile(name)
			if err != nil {
				return fmt.Errorf("run it in its own directory: %w", err)
			}
			if err := os.WriteFile(filepath.Join(b.dir, name), content, 0o600); err != nil {
				return err
			}
		}
		b.flags = []string{"-mod=mod", "-modfile=" + file}
	}
	out, err := b.goCommand(ctx, "mod", "edit", edit, file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go mod edit: %w\n%s", err, out)
	}
	return nil
}

// folder is where the tests run. Some open sockets in the directory that they run
// in, and the suite's own is in the module cache, which is read-only.
func (b build) folder() string {
	return filepath.Join(b.dir, "tests", "integration", "clientv3", "package")
}

// linkFixtures makes the folder, with the suite's certificates where the tests look
// for them from there.
func (b build) linkFixtures(suite string) error {
	if err := os.MkdirAll(b.folder(), 0o700); err != nil {
		return err
	}
	for _, fixtures := range b.suite.fixtures {
		if err := os.Symlink(filepath.Join(suite, fixtures), filepath.Join(b.dir, "tests", fixtures)); err != nil {
			return err
		}
	}
	return nil
}

func (b build) remove() error { return os.RemoveAll(b.dir) }

func (b build) String() string {
	if b.official {
		return "the official client"
	}
	return "Quorate"
}

// goCommand returns a go command in this module, not subject to any workspace.
func (b build) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return cmd
}
