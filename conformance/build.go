package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	clientModule  = "go.etcd.io/etcd/client/v3"
	clientVersion = "v3.7.3"
	quorateModule = "github.com/quorate/quorate"
)

// build is a suite with the client that it is compiled with.
type build struct {
	suite    suite
	dir      string   // temporary files
	flags    []string // of the go command
	official bool
}

// newBuild returns a suite over Quorate, or over the official client, and checks
// that it is compiled with that client. It must be removed.
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
		if err := b.editModule(ctx, "-dropreplace="+clientModule); err != nil {
			return b, err
		}
	}
	if s.apart {
		for path, version := range s.released {
			if err := b.editModule(ctx, "-require="+path+"@"+version); err != nil {
				return b, err
			}
		}
	}
	if err := b.check(ctx); err != nil || len(s.fixtures) == 0 {
		return b, err
	}
	return b, b.linkFixtures(ctx)
}

// editModule makes the tests compile with an edited copy of go.mod, which the go command completes.
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

// check returns an error unless the tests are the released ones, and the client the one that was asked for.
func (b build) check(ctx context.Context) error {
	want := make([]string, 0, 2+len(b.suite.released))
	if b.official {
		want = append(want, clientModule+" "+clientVersion)
	} else {
		want = append(want, clientModule+" => ../compat/clientv3", quorateModule+" => ../")
	}
	for path, version := range b.suite.released {
		want = append(want, path+" "+version)
	}
	paths := slices.AppendSeq([]string{clientModule, quorateModule}, maps.Keys(b.suite.released))
	got, err := b.listModules(ctx, "{{.Path}} {{with .Replace}}=> {{.}}{{else}}{{.Version}}{{end}}", paths...)
	if err != nil {
		return err
	}
	for _, module := range want {
		if !slices.Contains(got, module) {
			return fmt.Errorf("the suite would be compiled without %s: the modules are %s", module, strings.Join(got, ", "))
		}
	}
	return nil
}

// listModules returns what "go list -m" says of modules, as the suite is compiled with them.
func (b build) listModules(ctx context.Context, format string, paths ...string) ([]string, error) {
	out, err := b.goCommand(ctx, slices.Concat([]string{"list", "-m", "-f=" + format}, b.flags, paths)...).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("run it in its own directory: go list -m: %w", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}

// folder is where the tests run.
func (b build) folder() string {
	return filepath.Join(b.dir, "tests", filepath.FromSlash(b.suite.folder))
}

// linkFixtures makes the folder, with the suite's certificates where the tests look
// for them from there.
func (b build) linkFixtures(ctx context.Context) error {
	tests, err := b.listModules(ctx, "{{.Dir}}", etcdTests)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.folder(), 0o700); err != nil {
		return err
	}
	for _, fixtures := range b.suite.fixtures {
		if err := os.Symlink(filepath.Join(tests[0], fixtures), filepath.Join(b.dir, "tests", fixtures)); err != nil {
			return err
		}
	}
	return nil
}

const (
	// storage are the tests of Kubernetes' storage, which start their servers by the package testServer of its module.
	storage          = "k8s.io/apiserver/pkg/storage/etcd3"
	kubernetesServer = "k8s.io/apiserver"
	testServer       = "pkg/storage/etcd3/testserver/test_server.go"
)

// useServer makes the tests of storage run on the executable at path. They are compiled in a copy of their module, with
// dependents/testserver in the place of the package that starts their server.
func (b *build) useServer(ctx context.Context, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	module, err := b.listModules(ctx, "{{.Dir}}", kubernetesServer)
	if err != nil {
		return err
	}
	ours, err := os.ReadFile(filepath.Join("dependents", "testserver", "testserver.go"))
	if err != nil {
		return err
	}
	copied := filepath.Join(b.dir, "apiserver")
	file := filepath.Join(copied, filepath.FromSlash(testServer))
	if err := os.CopyFS(copied, os.DirFS(module[0])); err != nil {
		return err
	}
	if err := errors.Join(os.Remove(file), os.WriteFile(file, ours, 0o600)); err != nil {
		return err
	}
	if err := b.editModule(ctx, "-replace="+kubernetesServer+"="+copied); err != nil {
		return err
	}
	b.suite.environ = append(slices.Clone(b.suite.environ), "QUORATE_SERVER="+path)
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
	cmd.Env = append(append(os.Environ(), "GOWORK=off"), b.suite.environ...)
	return cmd
}
