package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
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
func newBuild(ctx context.Context, s suite, official bool) (*build, error) {
	b := &build{suite: s, official: official}
	if err := fatal.Catch(func() { b.prepare(ctx) }); err != nil {
		return nil, errors.Join(err, b.remove())
	}
	return b, nil
}

// prepare ends with the first error, see package fatal.
func (b *build) prepare(ctx context.Context) {
	_, err := os.Stat("suites.go")
	fatal.If(err, "run it in its own directory")
	b.dir = fatal.OK(os.MkdirTemp("", "quorate-conformance-"))
	if b.official {
		b.editModule(ctx, "-dropreplace="+clientModule)
	}
	if b.suite.apart {
		for path, version := range b.suite.released {
			b.editModule(ctx, "-require="+path+"@"+version)
		}
	}
	b.check(ctx)
	if len(b.suite.fixtures) > 0 {
		b.linkFixtures(ctx)
	}
}

// editModule makes the tests compile with an edited copy of go.mod, which the go command completes.
func (b *build) editModule(ctx context.Context, edit string) {
	file := filepath.Join(b.dir, "go.mod")
	if len(b.flags) == 0 {
		for _, name := range []string{"go.mod", "go.sum"} {
			fatal.If(os.WriteFile(filepath.Join(b.dir, name), fatal.OK(os.ReadFile(name)), 0o600))
		}
		b.flags = []string{"-mod=mod", "-modfile=" + file}
	}
	b.run(ctx, "", "mod", "edit", edit, file)
}

// run runs a go command in a folder, "" for this one, and returns what it printed. An error, which ends it, has what it said besides.
func (b *build) run(ctx context.Context, folder string, args ...string) string {
	cmd := b.goCommand(ctx, args...)
	cmd.Dir = folder
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w\n%s", err, exit.Stderr)
	}
	fatal.If(err, strings.Join(cmd.Args, " "))
	return string(out)
}

// check ends with an error unless the tests are the released ones, and the client the one that was asked for.
func (b *build) check(ctx context.Context) {
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
	got := b.listModules(ctx, "{{.Path}} {{with .Replace}}=> {{.}}{{else}}{{.Version}}{{end}}", paths...)
	for _, module := range want {
		if !slices.Contains(got, module) {
			fatal.If(fmt.Errorf("the suite would be compiled without %s: the modules are %s", module, strings.Join(got, ", ")))
		}
	}
}

// listModules returns what "go list -m" says of modules, as the suite is compiled with them.
func (b *build) listModules(ctx context.Context, format string, paths ...string) []string {
	return strings.Split(strings.TrimSpace(b.run(ctx, "", slices.Concat([]string{"list", "-m", "-f=" + format}, b.flags, paths)...)), "\n")
}

// folder is where the tests run.
func (b *build) folder() string {
	return filepath.Join(b.dir, "tests", filepath.FromSlash(b.suite.folder))
}

// linkFixtures makes the folder, with the suite's certificates where the tests look
// for them from there.
func (b *build) linkFixtures(ctx context.Context) {
	tests := b.listModules(ctx, "{{.Dir}}", etcdTests)
	fatal.If(os.MkdirAll(b.folder(), 0o700))
	for _, fixtures := range b.suite.fixtures {
		fatal.If(os.Symlink(filepath.Join(tests[0], fixtures), filepath.Join(b.dir, "tests", fixtures)))
	}
}

const (
	// storage are the tests of Kubernetes' storage, which start their servers by the package testServer of its module.
	storage          = "k8s.io/apiserver/pkg/storage/etcd3"
	kubernetesServer = "k8s.io/apiserver"
	testServer       = "pkg/storage/etcd3/testserver/test_server.go"
)

// useServer makes the tests of storage run on the executable at path. They are compiled in a copy of their module, with
// dependents/testserver in the place of the package that starts their server.
func (b *build) useServer(ctx context.Context, path string) {
	path = fatal.OK(filepath.Abs(path))
	_, err := os.Stat(path)
	fatal.If(err, "--server")
	module := b.listModules(ctx, "{{.Dir}}", kubernetesServer)
	ours := fatal.OK(os.ReadFile(filepath.Join("dependents", "testserver", "testserver.go")))
	copied := filepath.Join(b.dir, "apiserver")
	file := filepath.Join(copied, filepath.FromSlash(testServer))
	fatal.If(os.CopyFS(copied, os.DirFS(module[0])))
	fatal.If(errors.Join(os.Remove(file), os.WriteFile(file, ours, 0o600)))
	b.editModule(ctx, "-replace="+kubernetesServer+"="+copied)
	b.suite.environ = append(slices.Clone(b.suite.environ), "QUORATE_SERVER="+path)
}

func (b *build) remove() error { return os.RemoveAll(b.dir) }

func (b *build) String() string {
	if b.official {
		return "the official client"
	}
	return "Quorate"
}

// goCommand returns a go command in this module, not subject to any workspace.
func (b *build) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(append(os.Environ(), "GOWORK=off"), b.suite.environ...)
	return cmd
}

const (
	serverModule = "go.etcd.io/etcd/server/v3"
	gofail       = "go.etcd.io/gofail@v0.2.0"
)

// buildServers builds the servers that the tests of the suite start, and the etcdctl with which they find the leader, in the
// folder where the tests look for both.
func (b *build) buildServers(ctx context.Context) {
	bin := filepath.Join(b.dir, "bin")
	for name, version := range b.suite.servers {
		b.buildServer(ctx, version, filepath.Join(bin, name))
	}
	if len(b.suite.servers) > 0 {
		b.run(ctx, "", slices.Concat([]string{"build"}, b.flags, []string{"-o", filepath.Join(bin, "etcdctl"), "./etcdctl"})...)
	}
}

// buildServer builds a release of etcd with its fail points, in a copy of its module.
func (b *build) buildServer(ctx context.Context, version, executable string) {
	var module struct{ Dir string }
	fatal.If(json.Unmarshal([]byte(b.run(ctx, "", "mod", "download", "-json", serverModule+"@"+version)), &module))
	source := filepath.Join(b.dir, "server", version)
	fatal.If(os.CopyFS(source, os.DirFS(module.Dir)))
	beside := []string{"api", "client/pkg", "client", "pkg"} // in the repository of etcd
	edit := append(make([]string, 0, 2+len(beside)), "mod", "edit")
	for _, part := range beside {
		edit = append(edit, "-dropreplace=go.etcd.io/etcd/"+part+"/v3")
	}
	b.run(ctx, source, edit...)
	folders := strings.Fields(b.run(ctx, source, "list", "-find", "-f={{.Dir}}", "./..."))
	b.run(ctx, source, slices.Concat([]string{"run", gofail, "enable"}, folders)...)
	b.run(ctx, source, "get", gofail)
	b.run(ctx, source, "build", "-mod=mod", "-o", executable, ".")
}

// startEtcd starts an empty etcd, which is also reached at the address that the tests expect. stop ends it and removes its files.
func startEtcd(ctx context.Context, address string) (stop func(), err error) {
	etcd, err := lab.Start(ctx, lab.Config{Members: 1})
	if err != nil {
		return nil, err
	}
	front, err := link.ListenAt(address, strings.TrimPrefix(etcd.DirectEndpoints()[0], "http://"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the tests expect an etcd at %s: %w", address, err), etcd.Close())
	}
	return func() { _ = errors.Join(front.Close(), etcd.Close()) }, nil // what is left is in the folder for temporary files
}
